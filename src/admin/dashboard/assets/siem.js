// How the audit log reaches other platforms, sink by sink.
import { h } from './dom.js';
import { get } from './api.js';
import { count, time } from './format.js';
import { badge, card, code, empty, facts, live, state } from './ui.js';

const LIVE_MS = 15_000;

export async function show(root) {
  const { place, refresh } = live(() => get('/api/v1/siem/status'), ({ platforms }) => (platforms.length === 0
    ? card('Sinks', {}, empty('Nothing is forwarded', 'Name a sink in [[siem.sinks]] of the configuration: Splunk, Elasticsearch, syslog, a webhook, OCSF files, or NATS.'))
    : h('div', { class: 'grid' }, platforms.map(sink))));
  root.replaceChildren(place);
  const timer = setInterval(() => { if (!document.hidden) refresh(); }, LIVE_MS);
  window.addEventListener('pagehide', () => clearInterval(timer), { once: true });
}

function sink(one) {
  return card(one.name ?? one.platform, { side: state(one.status) },
    h('p', { class: 'badges' }, badge(one.platform, '')),
    facts([
      ['Forwarded', h('span', { class: 'number' }, count(one.events_forwarded))],
      ['Last taken', time(one.last_forward)],
      ['Failed attempts', h('span', { class: 'number' }, count(one.errors))],
      ['Refused for good', h('span', { class: 'number' }, count(one.dead_letters))],
      ['Dropped before it was sent', h('span', { class: 'number' }, count(one.events_missed))],
      ['Late', h('span', { class: 'number' }, count(one.events_late))],
      ['Done up to', one.cursor && (/^0+$/.test(one.cursor) ? 'nothing yet' : code(one.cursor))],
    ]),
    one.last_error && h('p', { class: 'notice problem' }, one.last_error));
}
