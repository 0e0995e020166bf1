// Local users, and who is signed in.
import { h } from './dom.js';
import { get, may, path, send } from './api.js';
import { time } from './format.js';
import { confirm, form } from './dialog.js';
import { badge, button, card, code, empty, field, live, select, table } from './ui.js';

const ROLES = ['analyst', 'auditor', 'operator', 'admin', 'service', 'agent'];
const TIERS = [['', 'As the deployment'], 'community', 'developer', 'professional', 'enterprise'];
const PASSWORD = { name: 'password', type: 'password', autocomplete: 'new-password', minlength: 12 };
const METHODS = { api_key: 'API key', password: 'password', sso: 'single sign-on' };

export async function show(root) {
  const parts = [];
  if (may('users:read')) parts.push(live(() => get('/api/v1/users'), users).place);
  if (may('sessions:read')) parts.push(live(() => get('/api/v1/sessions'), sessions).place);
  root.replaceChildren(...parts);
}

function users({ users: all }, refresh) {
  const side = may('users:write') && button('New user', () => create(refresh), { class: 'main', id: 'new-user' });
  return card('Users', { flush: true, side, about: 'who sign in with a name and a password' }, table('Users', [
    { name: 'Name', long: true, cell: (user) => h('strong', {}, user.name) },
    { name: 'Role', cell: (user) => badge(user.role, user.role === 'admin' ? 'high' : '') },
    { name: 'Tier', cell: (user) => user.tier ?? 'as the deployment' },
    { name: 'State', cell: (user) => (user.disabled ? badge('disabled', 'medium') : badge('active', 'good')) },
    { name: 'Last sign-in', cell: (user) => time(user.last_login_at) },
    { name: 'Made', cell: (user) => time(user.created_at) },
    { name: '', right: true, cell: (user) => may('users:write') && h('div', { class: 'actions' },
      button('Change', () => change(user, refresh), { 'aria-label': `Change user ${user.name}` }),
      button('Delete', () => confirm(`Delete ${user.name}?`, 'The user cannot sign in any more; sessions and tokens end at once.', 'Delete', async () => {
        await send('DELETE', path`/api/v1/users/${user.id}`);
        await refresh();
      }), { class: 'grave', 'aria-label': `Delete user ${user.name}` })) },
  ], all, { none: empty('There are no local users', 'People sign in with API keys or at the identity provider. A local user has a name and a password.') }));
}

function create(refresh) {
  form('New user', {
    button: 'Make the user',
    fields: [h('div', { class: 'fields' },
      field('Name', h('input', { name: 'name', required: true, autocomplete: 'off' })),
      field('Password', h('input', { ...PASSWORD, required: true }), '(12 characters at least)'),
      field('Role', select('role', ROLES, 'analyst')),
      field('Tier', select('tier', TIERS)))],
    send: async (values) => {
      await send('POST', '/api/v1/users', { name: values.get('name'), password: values.get('password'), role: values.get('role'), ...(values.get('tier') ? { tier: values.get('tier') } : {}) });
      await refresh();
    },
  });
}

function change(user, refresh) {
  form(`Change ${user.name}`, {
    button: 'Change',
    about: 'Every change ends the sessions and tokens of the user.',
    fields: [
      h('div', { class: 'fields' },
        field('Role', select('role', ROLES, user.role)),
        field('Tier', select('tier', TIERS, user.tier ?? '')),
        field('New password', h('input', PASSWORD), '(empty: as it is)')),
      h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'disabled', checked: user.disabled }), 'May not sign in'),
    ],
    send: async (values) => {
      const wanted = { role: values.get('role'), tier: values.get('tier') || null, disabled: values.has('disabled') };
      if (values.get('password')) wanted.password = values.get('password');
      await send('PATCH', path`/api/v1/users/${user.id}`, wanted);
      await refresh();
    },
  });
}

function sessions({ sessions: all }, refresh) {
  return card('Signed in', { flush: true, about: 'sessions of browsers' }, table('Sessions', [
    { name: 'Who', long: true, cell: (one) => h('div', {}, h('strong', {}, one.name), one.current && [' ', badge('this one', 'good')], h('p', { class: 'quiet small' }, code(one.actor))) },
    { name: 'Role', cell: (one) => badge(one.role, one.role === 'admin' ? 'high' : '') },
    { name: 'With', cell: (one) => h('div', {}, METHODS[one.method] ?? one.method, one.issuer && h('p', { class: 'quiet small' }, one.issuer)) },
    { name: 'Since', cell: (one) => time(one.created_at) },
    { name: 'Last seen', cell: (one) => time(one.last_seen_at) },
    { name: 'Ends', cell: (one) => time(one.expires_at) },
    { name: '', right: true, cell: (one) => may('sessions:write') && !one.current && h('div', { class: 'actions' },
      button('End', () => confirm(`End the session of ${one.name}?`, 'The browser has to sign in again.', 'End it', async () => {
        await send('DELETE', path`/api/v1/sessions/${one.id}`);
        await refresh();
      }), { class: 'grave', 'aria-label': `End the session of ${one.name}` })) },
  ], all, { none: empty('Nobody is signed in', '') }));
}
