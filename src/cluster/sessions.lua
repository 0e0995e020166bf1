-- Tells when a session was last used at any node, and notes that it is used now.
--
-- KEYS: the session. ARGV: its last use as the asking node knows it; the moment, or nothing where it is only looked up;
-- how long it may be idle; how long it is kept; all in milliseconds, by the clock of the asking node.
-- Answers the last use before, or -1 where the session has ended. One that was idle for too long is not used again.

local known = redis.call('GET', KEYS[1])
if known == 'ended' then return -1 end
local seen, now = math.max(tonumber(known or '0'), tonumber(ARGV[1])), tonumber(ARGV[2])
if now and now - seen < tonumber(ARGV[3]) then
  redis.call('SET', KEYS[1], string.format('%.0f', math.max(seen, now)), 'PX', ARGV[4])
end
return seen
