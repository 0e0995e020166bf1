-- Tells how a key's budget stands at a node, and decides what the node's exchanges may reserve.
--
-- KEYS: the key's budget; since when anything is known here.
-- ARGV: the node; its standing (a number that rises with each word of the node; day; month; used in the day and in the
-- month, each in tokens and in money, as the store has it, and what the store has not; reserved); the limits in the order
-- of what is used, -1 for none; what each exchange holds and what it wants instead; how long the node's word counts,
-- how long anything is kept, and from when on what is known here is believed, in milliseconds.
-- Answers the moment in milliseconds, and for each exchange: 0 granted; -1 reserved by others; -2 nobody can tell; else the sum of 1, 2, 4 and 8 for the
-- limits that are used up.

local function numbers(text)
  local found = {}
  for word in string.gmatch(text, '%S+') do found[#found + 1] = tonumber(word) end
  return found
end

local function text(of)
  local words = {}
  for at = 1, #of do words[at] = string.format('%.0f', of[at]) end
  return table.concat(words, ' ')
end

-- The day since 1970 and the month since the year 0, of this clock: years that begin in March have their odd day last.
local function periods(seconds)
  local day = math.floor(seconds / 86400)
  local since = day + 719468
  local era = math.floor(since / 146097)
  local left = since - era * 146097
  local year = math.floor((left - math.floor(left / 1460) + math.floor(left / 36524) - math.floor(left / 146096)) / 365)
  local of_year = left - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  return {day, (era * 400 + year) * 12 + math.floor((5 * of_year + 2) / 153) + 2}
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local begun = tonumber(redis.call('GET', KEYS[2]) or -1)
if begun < 0 or begun > now then
  -- What was known before the clock was set back is known still.
  begun = begun < 0 and now or 0
  redis.call('SET', KEYS[2], text({begun}))
end
if ARGV[2] == '' then return text({now}) end

local own, limits, wants, times = numbers(ARGV[2]), numbers(ARGV[3]), numbers(ARGV[4]), numbers(ARGV[5])
-- No day has begun before it has here, whatever the clock of a node shows.
local today = periods(tonumber(time[1]))
for period = 1, 2 do own[1 + period] = math.min(own[1 + period], today[period]) end
local kept = {own[2], own[3], own[4], own[5], own[6], own[7]}
local used = {own[8], own[9], own[10], own[11]}
local stored = {own[4], own[5], own[6], own[7]}
local reserved = {own[12], own[13]}
local known, is_late = redis.call('HGETALL', KEYS[1]), false
for i = 1, #known, 2 do
  local name, it = known[i], numbers(known[i + 1])
  if name == 'stored' then
    for period = 1, 2 do
      it[period] = math.min(it[period], today[period])
      for at = period * 2 - 1, period * 2 do
        if it[period] == own[1 + period] then
          stored[at] = math.max(stored[at], it[at + 2])
          kept[at + 2] = stored[at]
        elseif it[period] > own[1 + period] then
          kept[at + 2] = it[at + 2]
        end
      end
      kept[period] = math.max(kept[period], it[period])
    end
  elseif it[14] <= now then
    redis.call('HDEL', KEYS[1], name)
  elseif name == ARGV[1] then
    is_late = it[1] > own[1]
  else
    if it[14] > now + times[1] then
      -- The clock was set back, and that moment will not come soon.
      it[14] = now + times[1]
      redis.call('HSET', KEYS[1], name, text(it))
    end
    for period = 1, 2 do
      it[1 + period] = math.min(it[1 + period], today[period])
      for at = period * 2 - 1, period * 2 do
        if it[1 + period] == own[1 + period] then used[at] = used[at] + it[at + 7] end
      end
      reserved[period] = reserved[period] + it[11 + period]
    end
  end
end
for at = 1, 4 do used[at] = used[at] + stored[at] end

local told, is_unsure = {}, is_late or now - begun < times[3]
for i = 1, #wants, 4 do
  local code, is_crowded = 0, false
  for at = 1, 4 do
    local kind = (at - 1) % 2
    local rest, wanted = reserved[1 + kind] - wants[i + kind], wants[i + 2 + kind]
    if limits[at] >= 0 then
      if used[at] >= limits[at] then code = code + 2 ^ (at - 1) end
      is_crowded = is_crowded or rest > 0 and wanted > 0 and used[at] + rest + wanted > limits[at]
    end
  end
  if code == 0 and is_crowded then code = -1 end
  if is_unsure then code = -2 end
  if code == 0 then
    for kind = 0, 1 do
      local more = wants[i + 2 + kind] - wants[i + kind]
      reserved[1 + kind] = reserved[1 + kind] + more
      own[12 + kind] = math.max(own[12 + kind] + more, 0)
    end
  end
  told[#told + 1] = text({code})
end
local answer = text({now}) .. ' ' .. table.concat(told, ' ')
if is_late then return answer end

local is_at_rest = true
for at = 8, 13 do is_at_rest = is_at_rest and own[at] == 0 end
own[14] = now + times[1]
redis.call('HSET', KEYS[1], 'stored', text(kept))
if is_at_rest then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], text(own))
end
redis.call('PEXPIRE', KEYS[1], times[2])
return answer
