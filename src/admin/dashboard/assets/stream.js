// The audit stream: server-sent events over fetch, so that a refusal can be told from a broken connection, and the
// last id that was seen is shown again after either.
import { Refusal, signIn } from './api.js';

const RETRY_MS = 3000;
const RETRY_MS_MAX = 30_000;
// Something is heard every 15 seconds; what is silent for longer is broken.
const SILENCE_MS = 40_000;

// Calls `entry(entry)` for each entry after `last`, and `state(name, detail)` as the connection goes; returns what ends it.
export function follow({ last, entry, state }) {
  let [seen, retry, failures, over] = [last, RETRY_MS, 0, false];
  let abort = new AbortController();
  // Whether the next attempt is not to wait, and what ends the wait that is under way.
  let [hurry, wake] = [false, () => {}];

  const take = (block) => {
    const fields = { data: [] };
    for (const line of block.split('\n')) {
      const at = line.indexOf(':');
      if (at === 0) continue;
      const [name, value] = at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1).replace(/^ /, '')];
      if (name === 'data') fields.data.push(value);
      else fields[name] = value;
    }
    if (/^\d+$/.test(fields.retry ?? '')) retry = Number(fields.retry);
    seen = fields.id ?? seen;
    if (fields.data.length === 0 || fields.event !== 'audit') return;
    entry(JSON.parse(fields.data.join('\n')));
  };

  const read = async () => {
    const headers = seen ? { 'last-event-id': seen } : {};
    const response = await fetch('/api/v1/audit/stream', { headers, cache: 'no-store', signal: abort.signal });
    if (response.status === 401) signIn();
    if (!response.ok) throw new Refusal(response.status, await response.json().catch(() => null));
    state('live');
    failures = 0;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const silence = setTimeout(() => abort.abort(), SILENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done) return;
      const blocks = (rest + value.replaceAll('\r', '')).split('\n\n');
      rest = blocks.pop();
      blocks.forEach(take);
    }
  };

  const sleep = (wait) => new Promise((done) => {
    const timer = setTimeout(done, wait);
    wake = () => { clearTimeout(timer); done(); };
  });

  // One connection after the other: whatever happens, there is never a second loop.
  const run = async () => {
    while (!over) {
      hurry = false;
      abort = new AbortController();
      state('connecting');
      try { await read(); } catch (error) {
        failures += 1;
        if (over) return;
        if (error.status === 403) { state('refused', error.message); return; }
        if (error.status) state('waiting', error.message);
      }
      if (over) return;
      if (hurry) continue;
      const wait = Math.min(RETRY_MS_MAX, retry * 2 ** Math.max(0, failures - 1)) * (0.8 + 0.4 * Math.random());
      state('waiting', `trying again in ${Math.max(1, Math.round(wait / 1000))} s`);
      await sleep(wait);
    }
  };

  const online = () => { hurry = true; abort.abort(); wake(); };
  window.addEventListener('online', online);
  run();
  return () => {
    over = true;
    abort.abort();
    wake();
    window.removeEventListener('online', online);
  };
}
