// Legal holds, and what data subjects may ask.
import { h } from './dom.js';
import { get, may, path, save, send } from './api.js';
import { count, time, words } from './format.js';
import { confirm, form, open } from './dialog.js';
import { badge, button, card, code, empty, facts, field, live, problem, table } from './ui.js';

export async function show(root) {
  const parts = [];
  if (may('dsar:run')) parts.push(subject());
  if (may('holds:read')) parts.push(check(), live(() => get('/api/v1/legal-holds'), holds).place);
  root.replaceChildren(h('div', { class: 'grid' }, parts.slice(0, -1)), parts.at(-1));
}

function subject() {
  const entity = h('input', { name: 'entity', required: true, maxlength: 512, placeholder: 'a user, a key’s id, a caller’s id', 'aria-label': 'Who' });
  const told = h('div', { 'aria-live': 'polite' });
  const named = () => {
    if (!entity.reportValidity()) return null;
    return entity.value.trim();
  };
  const exported = async () => {
    const id = named();
    if (!id) return;
    try {
      const found = await send('POST', '/api/v1/dsar/export', { entity_id: id });
      const known = Object.keys(found.providers);
      told.replaceChildren(known.length === 0 ? h('p', { class: 'notice' }, 'Nothing is kept of this entity.')
        : h('div', { class: 'fill' }, providers(found.providers), h('div', { class: 'actions' }, button('Save as a file', () => save(`dsar-${id.replace(/[^\w.@-]/g, '_').slice(0, 64)}.json`, JSON.stringify(found, null, 2))))));
    } catch (error) { told.replaceChildren(problem(error)); }
  };
  const erased = () => {
    const id = named();
    if (!id) return;
    form(`Erase ${id}?`, {
      button: 'Erase',
      grave: true,
      about: 'The key of the name is destroyed: no entry names it any more, exports show it as erased, and nothing brings it back. The audit log still verifies.',
      fields: [field('Write the name again', h('input', { name: 'again', required: true, autocomplete: 'off' }))],
      send: async (values) => {
        if (values.get('again').trim() !== id) throw new Error('the names differ');
        try {
          const done = await send('POST', '/api/v1/dsar/erase', { entity_id: id });
          const rows = Object.entries(done.providers).map(([name, records]) => [words(name), count(records)]);
          told.replaceChildren(h('div', { class: 'notice' }, h('p', {}, `Erased: ${count(done.records_affected)} records.`), facts(rows)));
        } catch (error) {
          if (error.told?.blocked_by) throw new Error('a legal hold forbids it', { cause: error });
          throw error;
        }
      },
    });
  };
  return card('Data subject', { about: 'to see what is kept of somebody, and to erase it', id: 'subject' },
    field('Who', entity),
    h('div', { class: 'actions' }, button('Show what is kept', exported, { class: 'main', id: 'dsar-export' }), button('Erase', erased, { class: 'grave', id: 'dsar-erase' })), told);
}

const shownFact = (value) => (Array.isArray(value) ? value.join(', ') : String(value));

function providers(all) {
  return Object.entries(all).map(([name, told]) => h('div', {}, h('h3', {}, words(name)), facts(Object.entries(told).map(([key, value]) => [words(key), shownFact(value)]))));
}

function check() {
  const entity = h('input', { name: 'entity', required: true });
  const told = h('p', { role: 'status' });
  const asked = h('form', { class: 'toolbar' }, field('Entity', entity), h('button', {}, 'Check'));
  asked.addEventListener('submit', async (event) => {
    event.preventDefault();
    try {
      const { under_hold: held } = await get(path`/api/v1/legal-holds/check/${entity.value.trim()}`);
      told.replaceChildren(badge(held ? 'under a hold' : 'not under a hold', held ? 'high' : 'good'));
    } catch (error) { told.replaceChildren(problem(error)); }
  });
  return card('Is somebody held?', { about: 'a hold forbids the erasure' }, asked, told);
}

function holds(all, refresh) {
  const side = may('holds:write') && button('New hold', () => create(refresh), { class: 'main', id: 'new-hold' });
  const newest = [...all].reverse();
  return card('Legal holds', { flush: true, side, about: `${count(all.filter((hold) => hold.status === 'active').length)} active; released ones stay on record` }, table('Legal holds', [
    { name: 'Hold', fixed: true, cell: (hold) => code(hold.id) },
    { name: 'State', cell: (hold) => badge(hold.status, hold.status === 'active' ? 'high' : '') },
    { name: 'Entity', long: true, cell: (hold) => h('div', {}, code(hold.entity_id), h('p', { class: 'quiet small' }, hold.entity_type)) },
    { name: 'Reason', long: true, cell: (hold) => hold.reason },
    { name: 'Issued by', long: true, cell: (hold) => hold.issued_by },
    { name: 'Since', cell: (hold) => time(hold.created_at) },
    { name: 'Released', cell: (hold) => (hold.released_at ? time(hold.released_at) : null) },
    { name: '', right: true, cell: (hold) => h('div', { class: 'actions' },
      button('Details', () => open(hold.id, facts(Object.entries(hold).map(([key, value]) => [words(key), key.endsWith('_at') ? time(value, { exact: true }) : value]))), { 'aria-label': `Details of ${hold.id}` }),
      may('holds:write') && hold.status === 'active' && button('Release', () => confirm(`Release ${hold.id}?`, 'The entity may be erased from then on. The hold stays on record.', 'Release', async () => {
        await send('DELETE', path`/api/v1/legal-holds/${hold.id}`);
        await refresh();
      }), { class: 'grave', 'aria-label': `Release ${hold.id}` })) },
  ], newest, { none: empty('There are no legal holds', 'A hold keeps the record of somebody from being erased.') }));
}

function create(refresh) {
  form('New legal hold', {
    button: 'Take the hold',
    fields: [h('div', { class: 'fields' },
      field('Entity', h('input', { name: 'entity_id', required: true })),
      field('Kind', h('input', { name: 'entity_type', required: true, value: 'user' })),
      field('Issued by', h('input', { name: 'issued_by', required: true, placeholder: 'an e-mail address' }))),
    field('Reason', h('textarea', { name: 'reason', required: true, rows: 3 }))],
    send: async (values) => {
      await send('POST', '/api/v1/legal-holds', Object.fromEntries(values));
      await refresh();
    },
  });
}
