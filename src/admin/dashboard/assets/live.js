// Decisions as they are made: what is recorded already, and from there on the stream, without a gap between. Both are of
// all nodes that share a database.
import { h } from './dom.js';
import { get } from './api.js';
import { count } from './format.js';
import { follow } from './stream.js';
import { CATEGORIES, SEVERITIES, columnsOf, learnNames, learnNodes } from './entry.js';
import { button, card, empty, field, select, table } from './ui.js';

// How many entries are kept, and how many of them are shown.
const KEPT = 500;
const SHOWN = 100;
const TRAFFIC = ['exchange', 'a2a_granted', 'a2a_denied', 'exchange_begun', 'exchange_unconfirmed'];

const TOLD = { connecting: 'Connecting …', live: 'Live', waiting: 'Not connected', refused: 'Not allowed' };
const LOOKS = { live: 'good', waiting: 'medium', refused: 'critical', connecting: '' };

// What one comes back to the stream with behind a page: its newest entry, that of each node, and for those that have none
// in it its oldest one.
function placeBehind(entries) {
  if (entries.length === 0) return undefined;
  const newest = new Map();
  for (const entry of entries) if (!newest.has(entry.node)) newest.set(entry.node, entry.id);
  return [entries[0].id, ...[...newest].map(([node, id]) => `${node}.${id}`), `.${entries.at(-1).id}`].join('~');
}

export async function show(root) {
  const [first, several] = await Promise.all([get('/api/v1/audit', { limit: 100 }), learnNodes(), learnNames()]);
  const entries = first.entries;
  const fresh = new Set();
  // How many came since it was paused; nothing while it is not.
  let paused = null;
  let came = 0;

  const chosen = h('form', { class: 'toolbar', role: 'search', 'aria-label': 'Filter the stream' },
    field('Decision', select('action', [['', 'All'], 'allow', 'monitor', 'redact', 'block'])),
    field('Category', select('category', [['', 'All'], ...CATEGORIES])),
    field('Severity', select('severity', [['', 'All'], ...SEVERITIES])),
    field('Events', select('kind', [['', 'All'], ['traffic', 'Traffic'], ['changes', 'Changes and sign-ins']])),
    field('Text', h('input', { name: 'text', type: 'search', placeholder: 'route, caller, detector …' })));
  chosen.addEventListener('input', () => draw());
  chosen.addEventListener('submit', (event) => event.preventDefault());

  const connection = h('span', { class: 'state', role: 'status', id: 'connection' }, TOLD.connecting);
  const detail = h('span', { class: 'quiet small' });
  const counted = h('span', { class: 'quiet small', id: 'counted' });
  const pause = button('Pause', () => {
    paused = paused === null ? 0 : null;
    pause.textContent = paused === null ? 'Pause' : 'Resume';
    pause.setAttribute('aria-pressed', String(paused !== null));
    if (paused === null) draw();
  }, { 'aria-pressed': 'false' });
  const clear = button('Clear', () => { entries.length = 0; draw(); });
  const list = h('div', { id: 'entries' });

  const fits = (entry) => {
    const wanted = Object.fromEntries(new FormData(chosen));
    const isTraffic = TRAFFIC.includes(entry.event_type);
    const categories = new Set([entry.category, ...(entry.findings ?? []).map((finding) => finding.category)]);
    const severities = new Set([entry.severity, ...(entry.findings ?? []).map((finding) => finding.severity)]);
    return (!wanted.action || entry.action === wanted.action)
      && (!wanted.category || categories.has(wanted.category))
      && (!wanted.severity || severities.has(wanted.severity))
      && (!wanted.kind || (wanted.kind === 'traffic') === isTraffic)
      && (!wanted.text || JSON.stringify(entry).toLowerCase().includes(wanted.text.toLowerCase()));
  };

  function draw() {
    const fitting = entries.filter(fits);
    const rows = fitting.slice(0, SHOWN);
    counted.textContent = `${count(came)} since the page was opened; ${count(rows.length)} of ${count(fitting.length)} that fit are shown, ${count(entries.length)} kept`;
    const none = entries.length === 0
      ? empty('Nothing has happened yet', 'Entries appear here by themselves as requests pass and settings change.')
      : empty('Nothing fits the filter', 'Widen it, or wait: entries go on coming.');
    list.replaceChildren(table('Live entries', columnsOf(rows), rows, { none }));
    const body = list.querySelector('tbody');
    rows.forEach((entry, at) => { if (fresh.has(entry.id)) body?.rows[at].classList.add('fresh'); });
    fresh.clear();
  }

  // Many entries in one moment are drawn once.
  let drawing = 0;
  const later = () => { drawing ||= requestAnimationFrame(() => { drawing = 0; draw(); }); };
  const end = follow({
    last: placeBehind(entries),
    entry: (entry) => {
      came += 1;
      entries.unshift(entry);
      fresh.add(entry.id);
      // A page that nobody looks at is not drawn, and must not grow either.
      for (const old of entries.splice(KEPT)) fresh.delete(old.id);
      if (paused === null) later();
      else { paused += 1; pause.textContent = `Resume (${count(paused)} new)`; }
    },
    state: (name, told) => {
      connection.textContent = TOLD[name];
      connection.className = `state ${LOOKS[name]}`;
      detail.textContent = told ?? (several.length > 1 ? `entries of ${count(several.length)} nodes` : '');
    },
  });
  window.addEventListener('pagehide', end, { once: true });

  root.replaceChildren(chosen, card('Entries', { flush: true, side: [connection, detail, pause, clear] }, counted, list));
  draw();
}
