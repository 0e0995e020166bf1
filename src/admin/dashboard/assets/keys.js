// API keys: who may call, with what scope and budget. A key is shown once.
import { h } from './dom.js';
import { attempt, get, isFault, may, path, send } from './api.js';
import { compact, count, money, time } from './format.js';
import { confirm, form, open, secret } from './dialog.js';
import { acting, badge, badges, button, card, code, empty, facts, field, live, select, table, tiles } from './ui.js';

const ROLES = ['service', 'analyst', 'auditor', 'operator', 'admin', 'agent'];
const TIERS = [['', 'As the deployment'], 'community', 'developer', 'professional', 'enterprise'];
const ONCE = 'Copy the key now: it is not kept, and cannot be shown again.';
const DAY_S = 86_400;

const globs = (text) => String(text ?? '').split(/[\s,]+/).filter(Boolean);
const amount = (text) => (text === '' || text === null ? undefined : Number(text));

export async function show(root) {
  const { place, refresh } = live(() => get('/api/v1/keys'), (told) => shown(told, () => refresh()));
  root.replaceChildren(place);
  place.className = 'fill';
}

function shown({ keys }, refresh) {
  const soon = Date.now() + 14 * DAY_S * 1000;
  const header = tiles([
    { id: 'keys', label: 'Keys', value: count(keys.length) },
    { label: 'Never used', value: count(keys.filter((key) => !key.last_used_at).length) },
    { label: 'End within 14 days', value: count(keys.filter((key) => key.expires_at && new Date(key.expires_at) < soon).length) },
    { label: 'Administrators', value: count(keys.filter((key) => key.role === 'admin').length) },
  ]);
  const side = may('keys:write') && button('New key', () => create(refresh), { class: 'main', id: 'new-key' });
  return [header, card('Keys', { flush: true, side }, table('Keys', columns(refresh), keys, { none: empty('There is no key you may see', 'Keys of your own role and above are not shown to you.') }))];
}

function columns(refresh) {
  return [
    { name: 'Name', long: true, cell: (key) => h('div', {}, h('strong', {}, key.name), h('p', { class: 'quiet small' }, code(key.id))) },
    { name: 'Role', cell: (key) => badge(key.role, key.role === 'admin' ? 'high' : '') },
    { name: 'Tier', cell: (key) => key.tier },
    { name: 'Scope', cell: scope },
    { name: 'Budget', cell: (key) => (key.budget ? badge('limited', 'low') : h('span', { class: 'quiet' }, 'none')) },
    { name: 'Last used', cell: (key) => time(key.last_used_at) },
    { name: 'Ends', cell: (key) => time(key.expires_at) },
    { name: '', right: true, cell: (key) => actions(key, refresh) },
  ];
}

function scope(key) {
  const parts = [['routes', key.routes], ['models', key.models], ['tools', key.tools]].filter(([, all]) => all.length);
  return parts.length ? parts.map(([name, all]) => h('p', { class: 'small' }, h('span', { class: 'quiet' }, `${name}: `), code(all.join(', ')))) : h('span', { class: 'quiet' }, 'everything');
}

function actions(key, refresh) {
  return h('div', { class: 'actions' },
    acting('Details', () => detail(key, refresh), { 'aria-label': `Details of key ${key.name}` }),
    may('keys:write') && [
      button('Rotate', () => rotate(key, refresh), { 'aria-label': `Rotate key ${key.name}` }),
      button('Revoke', () => confirm(`Revoke ${key.name}?`, 'Whoever uses it is refused from this moment on. This cannot be undone.', 'Revoke', async () => {
        await send('DELETE', path`/api/v1/keys/${key.id}`);
        await refresh();
      }), { class: 'grave', 'aria-label': `Revoke key ${key.name}` }),
    ]);
}

const budgetFields = (limits = {}) => [
  field('Tokens a day', h('input', { name: 'tokens_per_day', type: 'number', min: 1, value: limits.tokens_per_day ?? '' })),
  field('Tokens a month', h('input', { name: 'tokens_per_month', type: 'number', min: 1, value: limits.tokens_per_month ?? '' })),
  field('Cost a day', h('input', { name: 'cost_per_day', type: 'number', min: 0, step: 'any', value: limits.cost_per_day ?? '' })),
  field('Cost a month', h('input', { name: 'cost_per_month', type: 'number', min: 0, step: 'any', value: limits.cost_per_month ?? '' })),
];
const budgetOf = (values) => Object.fromEntries(['tokens_per_day', 'tokens_per_month', 'cost_per_day', 'cost_per_month'].map((name) => [name, amount(values.get(name))]).filter(([, value]) => value !== undefined));

function create(refresh) {
  form('New key', {
    button: 'Make the key',
    fields: [
      h('div', { class: 'fields' },
        field('Name', h('input', { name: 'name', required: true, maxlength: 100 })),
        field('Role', select('role', ROLES, 'service')),
        field('Tier', select('tier', TIERS)),
        field('Ends', h('input', { name: 'expires_at', type: 'datetime-local' }), '(empty: never)')),
      h('fieldset', {}, h('legend', {}, 'Scope: names or globs; empty is everything'), h('div', { class: 'fields' },
        field('Routes', h('input', { name: 'routes', placeholder: 'team-*' })),
        field('Models', h('input', { name: 'models', placeholder: 'gpt-4o*' })),
        field('Tools', h('input', { name: 'tools', placeholder: 'search, read_*' })))),
      h('fieldset', {}, h('legend', {}, 'Budget: empty is unlimited'), h('div', { class: 'fields' }, budgetFields())),
    ],
    send: async (values) => {
      const budget = budgetOf(values);
      const ends = values.get('expires_at');
      const made = await send('POST', '/api/v1/keys', {
        name: values.get('name'),
        role: values.get('role'),
        ...(values.get('tier') ? { tier: values.get('tier') } : {}),
        ...(ends ? { expires_at: new Date(ends).toISOString() } : {}),
        routes: globs(values.get('routes')),
        models: globs(values.get('models')),
        tools: globs(values.get('tools')),
        ...(Object.keys(budget).length ? { budget } : {}),
      });
      await refresh();
      secret(`Key ${made.name}`, ONCE, made.key);
    },
  });
}

function rotate(key, refresh) {
  form(`Rotate ${key.name}`, {
    button: 'Rotate',
    about: 'The key gets a new text. The one before goes on counting for the overlap, so that programs can change over.',
    fields: [field('Overlap', select('overlap', [['0', 'none: the old text stops at once'], ['3600', 'an hour'], [String(DAY_S), 'a day'], [String(7 * DAY_S), 'a week'], [String(30 * DAY_S), '30 days']], '3600'))],
    send: async (values) => {
      const made = await send('POST', path`/api/v1/keys/${key.id}/rotate`, { overlap_s: Number(values.get('overlap')) });
      await refresh();
      secret(`Key ${made.name}`, ONCE, made.key);
    },
  });
}

async function detail(key, refresh) {
  const budget = key.budget ? await attempt(path`/api/v1/keys/${key.id}/budget`) : null;
  const used = budget && !isFault(budget);
  open(key.name,
    facts([
      ['Id', code(key.id)], ['Role', badge(key.role, '')], ['Tier', key.tier], ['Made', time(key.created_at)], ['Ends', time(key.expires_at)],
      ['Last used', time(key.last_used_at)], ['Rotated', key.rotated_at && time(key.rotated_at)], ['Text before counts until', key.previous_expires_at && time(key.previous_expires_at)],
      ['Routes', key.routes.length ? badges(key.routes) : 'all'], ['Models', key.models.length ? badges(key.models) : 'all'], ['Tools', key.tools.length ? badges(key.tools) : 'all'],
    ]),
    h('h3', {}, 'Budget'),
    used ? facts([
      ['Today', `${compact(budget.today.tokens)}${budget.limits.tokens_per_day ? ` of ${compact(budget.limits.tokens_per_day)}` : ''} tokens, ${money(budget.today.cost, budget.currency)}${budget.limits.cost_per_day ? ` of ${money(budget.limits.cost_per_day, budget.currency)}` : ''}`],
      ['This month', `${compact(budget.this_month.tokens)}${budget.limits.tokens_per_month ? ` of ${compact(budget.limits.tokens_per_month)}` : ''} tokens, ${money(budget.this_month.cost, budget.currency)}${budget.limits.cost_per_month ? ` of ${money(budget.limits.cost_per_month, budget.currency)}` : ''}`],
      ['The day begins anew', time(budget.today.resets_at)],
    ]) : h('p', { class: 'quiet' }, 'It may use as much as it likes.'),
    may('keys:write') && h('div', { class: 'actions' },
      button(key.budget ? 'Change the budget' : 'Set a budget', () => setBudget(key, refresh)),
      key.budget && acting('Take the budget away', async () => { await send('DELETE', path`/api/v1/keys/${key.id}/budget`); document.querySelector('dialog')?.close(); await refresh(); })));
}

function setBudget(key, refresh) {
  document.querySelector('dialog')?.close();
  form(`Budget of ${key.name}`, {
    button: 'Set',
    about: 'Days and months are those of UTC. What is empty is unlimited.',
    fields: [h('div', { class: 'fields' }, budgetFields(key.budget ?? {}))],
    send: async (values) => {
      await send('PUT', path`/api/v1/keys/${key.id}/budget`, budgetOf(values));
      await refresh();
    },
  });
}
