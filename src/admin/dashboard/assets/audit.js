// The audit log: asked by filters, page by page, each entry in full, and taken along as a file.
import { h } from './dom.js';
import { get, query } from './api.js';
import { count, time } from './format.js';
import { open } from './dialog.js';
import { CATEGORIES, SEVERITIES, columnsOf, learnNames, learnNodes } from './entry.js';
import { acting, button, card, code, empty, facts, field, problem, select, table, waiting } from './ui.js';

const FILTERS = ['from', 'to', 'category', 'severity', 'action', 'detector', 'route', 'policy', 'event_type', 'entity', 'request_id', 'node'];
const PAGE = 50;

const KNOWN_EVENTS = ['exchange', 'a2a_granted', 'a2a_denied', 'login', 'login_failed', 'logout', 'access_denied', 'key_created', 'key_revoked', 'config_changed', 'policy_changed', 'hold_created', 'hold_released', 'entity_erased', 'entity_exported', 'audit_exported'];

const KNOWN_ACTIONS = ['allow', 'monitor', 'redact', 'block'];

// What is written in the reader's own time is asked for in UTC.
const instant = (local) => (local ? new Date(local).toISOString() : '');
const local = (text) => {
  const date = new Date(text);
  if (!text || Number.isNaN(date.getTime())) return '';
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
};

export async function show(root) {
  const asked = Object.fromEntries(new URLSearchParams(location.search));
  const [several] = await Promise.all([learnNodes(), learnNames()]);
  const ofNodes = asked.node && !several.includes(asked.node) ? [...several, asked.node] : several;
  const form = h('form', { class: 'toolbar', role: 'search', 'aria-label': 'Search the log' },
    field('From', h('input', { name: 'from', type: 'datetime-local', step: '1', value: local(asked.from) })),
    field('To', h('input', { name: 'to', type: 'datetime-local', step: '1', value: local(asked.to) })),
    field('Category', select('category', [['', 'All'], ...CATEGORIES], asked.category)),
    field('Severity', select('severity', [['', 'All'], ...SEVERITIES], asked.severity)),
    field('Action', h('input', { name: 'action', list: 'actions', value: asked.action ?? '', placeholder: 'all' })),
    field('Detector', h('input', { name: 'detector', value: asked.detector ?? '', placeholder: 'all' })),
    field('Route', h('input', { name: 'route', value: asked.route ?? '', placeholder: 'all' })),
    field('Policy', h('input', { name: 'policy', value: asked.policy ?? '', placeholder: 'all' })),
    field('Event', h('input', { name: 'event_type', list: 'events', value: asked.event_type ?? '', placeholder: 'all' })),
    field('About', h('input', { name: 'entity', value: asked.entity ?? '', placeholder: 'caller, user, key id' })),
    field('Request', h('input', { name: 'request_id', value: asked.request_id ?? '', placeholder: 'request id' })),
    ofNodes.length > 0 && field('Node', select('node', [['', 'All'], ...ofNodes], asked.node)),
    h('datalist', { id: 'actions' }, KNOWN_ACTIONS.map((name) => h('option', { value: name }))),
    h('datalist', { id: 'events' }, KNOWN_EVENTS.map((name) => h('option', { value: name }))),
    h('div', { class: 'actions' }, h('button', { class: 'main' }, 'Search'), button('Reset', () => { form.reset(); for (const name of given()) form.elements[name].value = ''; search(); })));
  // The filters there are: a node alone has none of its own.
  const given = () => FILTERS.filter((name) => form.elements[name]);
  const list = h('div', {});
  const paging = h('div', { class: 'actions' });
  const exports = h('div', { class: 'actions' });
  const total = h('span', { class: 'quiet small', id: 'total', role: 'status' });
  // The cursors of the pages before this one, so that one can go back.
  let before = [];
  let cursor = '';

  const wanted = () => {
    const values = Object.fromEntries(given().map((name) => [name, form.elements[name].value.trim()]));
    return { ...values, from: instant(values.from), to: instant(values.to) };
  };

  async function read() {
    const filters = wanted();
    history.replaceState(null, '', location.pathname + query(filters));
    exports.replaceChildren(
      h('a', { class: 'button', href: `/api/v1/audit/export${query({ ...filters, format: 'jsonl' })}`, download: true }, 'JSON lines'),
      h('a', { class: 'button', href: `/api/v1/audit/export${query({ ...filters, format: 'csv' })}`, download: true }, 'CSV'),
      acting('Checkpoint', checkpoint));
    list.replaceChildren(waiting());
    try {
      const page = await get('/api/v1/audit', { ...filters, limit: PAGE, cursor });
      const first = before.length * PAGE;
      total.textContent = page.total === 0 ? 'No entries' : `${count(first + 1)} to ${count(first + page.entries.length)} of ${count(page.total)}`;
      const none = empty('No entry fits', 'Nothing was recorded that matches every filter at once.');
      list.replaceChildren(...[!page.complete && partial(), table('Audit entries', columnsOf(page.entries), page.entries, { none })].filter(Boolean));
      paging.replaceChildren(
        button('Newer', () => { cursor = before.pop() ?? ''; read(); }, { disabled: before.length === 0, id: 'newer' }),
        button('Older', () => { before.push(cursor); cursor = page.cursor; read(); }, { disabled: !page.cursor, id: 'older' }));
    } catch (error) {
      total.textContent = '';
      paging.replaceChildren();
      list.replaceChildren(problem(error, read));
    }
  }

  function search() {
    [before, cursor] = [[], ''];
    return read();
  }

  form.addEventListener('submit', (event) => { event.preventDefault(); search(); });
  root.replaceChildren(form, card('Entries', { flush: true, side: exports }, total, list, paging));
  await search();
}

const partial = () => h('div', { class: 'notice', role: 'status', id: 'partial' }, h('p', {}, 'These are not all entries: what other nodes have shipped cannot be read at the moment, the journal is damaged at that time, or entries are still being indexed.'));

// A signed word on where the log is now.
async function checkpoint() {
  const signed = await get('/api/v1/audit/checkpoint');
  open('Checkpoint',
    h('p', { class: 'quiet' }, 'Keep it apart from the gateway: an export that does not lead to this hash was changed. "portcullis audit verify" checks both offline.'),
    facts([['Node', signed.origin], ['Signed', time(signed.at, { exact: true })], ['Newest entry', code(signed.last_id)], ['Its hash', code(signed.last_hash)], ['Key', code(signed.key_id)]]),
    h('pre', { tabindex: '0' }, JSON.stringify(signed)));
}
