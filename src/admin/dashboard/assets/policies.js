// Policies: what each does, changed with a check before, where they count, the revisions, which one is live, and the way
// back.
import { h } from './dom.js';
import { get, may, path, send, tagged } from './api.js';
import { time } from './format.js';
import { confirm, form, open } from './dialog.js';
import { difference, patchOf } from './difference.js';
import { routes } from './routes.js';
import { acting, badge, badges, button, card, code, empty, facts, field, live, problem, table, tabs } from './ui.js';

const STARTER = { name: 'New policy', description: '', fail_mode: 'closed', categories: { secrets: { mode: 'block', threshold: 'medium' }, pii: { mode: 'redact', threshold: 'medium' }, injection: { mode: 'monitor', threshold: 'high' } } };
const written = (definition) => JSON.stringify(definition, null, 2);

export async function show(root) {
  const all = [['policies', 'Policies', async () => live(() => get('/api/v1/policies'), policies).place]];
  if (may('config:read')) {
    all.push(['routes', 'Routes', async () => live(() => get('/api/v1/config'), routes).place]);
    all.push(['revisions', 'Revisions', async () => live(() => get('/api/v1/config/revisions', { limit: 50 }), revisions).place]);
    all.push(['profiles', 'Profiles', async () => live(() => get('/api/v1/profiles'), profiles).place]);
    all.push(['config', 'Configuration', async () => configuration(await get('/api/v1/config'))]);
  }
  root.replaceChildren(...tabs('What is shown', all));
}

function policies({ policies: all, revision }, refresh) {
  const bar = h('div', { class: 'actions' }, h('span', { class: 'quiet' }, 'Live: ', h('strong', { id: 'live-revision' }, `revision ${revision}`)),
    may('config:write') && button('New policy', () => edit(null, STARTER, refresh), { class: 'main push', id: 'new-policy' }));
  const made = h('div', { class: 'fill' }, bar, h('div', { class: 'grid wide' }, all.map((policy) => onePolicy(policy, refresh))));
  return made;
}

function onePolicy(policy, refresh) {
  const categories = Object.entries(policy.categories);
  const side = [
    acting(may('config:write') ? 'Edit' : 'View', () => change(policy.id, refresh), { 'aria-label': `Edit policy ${policy.id}` }),
    may('config:write') && policy.routes.length === 0 && button('Remove', () => confirm(`Remove ${policy.id}?`, 'Only a policy that nothing uses can be removed. A rollback brings it back.', 'Remove', async () => {
      await send('DELETE', path`/api/v1/policies/${policy.id}`);
      await refresh();
    }), { class: 'grave', 'aria-label': `Remove policy ${policy.id}` }),
  ];
  return card(policy.name || policy.id, { side },
    h('p', { class: 'quiet' }, policy.description),
    h('p', { class: 'badges' }, badge(policy.id, ''), badge(policy.mode), badge(`fails ${policy.fail_mode}`, policy.fail_mode === 'open' ? 'medium' : ''), !policy.enabled && badge('off', 'medium')),
    table(`What ${policy.id} does`, [
      { name: 'Category', cell: ([name]) => name },
      { name: 'Requests', cell: ([, rule]) => mode(rule.request) },
      { name: 'Responses', cell: ([, rule]) => mode(rule.response) },
      { name: 'From', cell: ([, rule]) => h('span', {}, rule.threshold, rule.only && h('span', { class: 'quiet small' }, ` ${rule.only.replaceAll('_', ' ')}`)) },
    ], categories),
    facts([['Routes', policy.routes.length ? badges(policy.routes) : h('span', { class: 'quiet' }, 'none')], ['Changed', policy.updated_at && time(policy.updated_at)]]));
}

const mode = (name) => (name === 'off' ? h('span', { class: 'quiet' }, 'off') : badge(name));

// What is edited is read anew, with the tag of the revision it is of: what others change meanwhile is not undone.
async function change(id, refresh) {
  const [policy, tag] = await tagged(path`/api/v1/policies/${id}`);
  edit(id, policy.definition, refresh, tag);
}

function edit(id, definition, refresh, tag) {
  const before = written(definition);
  const text = h('textarea', { name: 'definition', class: 'code', spellcheck: 'false', required: true, value: before, readonly: !may('config:write') });
  if (!may('config:write')) { open(`Policy ${id}`, field('Definition', text)); return; }
  const outcome = h('div', { class: 'fill', 'aria-live': 'polite', id: 'outcome' });
  const read = () => {
    try { return JSON.parse(text.value); } catch (error) { throw new Error(`the definition is not valid JSON: ${error.message}`, { cause: error }); }
  };
  const check = async () => {
    try {
      const wanted = read();
      const name = id ?? dialog.querySelector('[name=id]').value.trim();
      const patch = { policies: { [name || 'new']: patchOf(id ? definition : {}, wanted) } };
      const told = await send('PUT', '/api/v1/config?dry_run=true', patch);
      outcome.replaceChildren(
        h('p', { class: 'notice' }, told.changed.length ? `It is sound, and would change ${told.changed.join(', ')}.` : 'It is sound, and changes nothing.'),
        difference(before, written(wanted)));
    } catch (error) { outcome.replaceChildren(problem(error)); }
  };
  const dialog = form(id ? `Policy ${id}` : 'New policy', {
    button: 'Put in force',
    about: 'A check compiles the whole configuration with the change, and changes nothing. What is put in force is a new revision.',
    fields: [!id && field('Id', h('input', { name: 'id', required: true, pattern: '[a-z0-9_\\-]+' }), '(lower case letters, digits, - and _)'), field('Definition', text), h('div', { class: 'actions' }, acting('Check', check, { id: 'check' })), outcome],
    send: async (values) => {
      const wanted = read();
      if (id) await send('PUT', path`/api/v1/policies/${id}`, wanted, { 'if-match': tag });
      else await send('POST', '/api/v1/policies', { id: values.get('id').trim(), ...wanted });
      await refresh();
    },
  });
}

function revisions({ revisions: all }, refresh) {
  return card('Revisions', { flush: true, about: 'every accepted change, the newest first' }, table('Revisions', [
    { name: 'Revision', right: false, cell: (one) => h('span', { class: 'number' }, String(one.revision), ' ', one.active && badge('live', 'good')) },
    { name: 'Came', cell: (one) => time(one.created_at) },
    { name: 'From', cell: (one) => badge(one.source, '') },
    { name: 'Author', cell: (one) => code(one.author) },
    { name: 'Digest', cell: (one) => code(one.etag.replaceAll('"', '').slice(0, 16)) },
    { name: '', right: true, cell: (one) => !one.active && may('config:write') && h('div', { class: 'actions' }, acting('Go back to it', () => back(one, refresh), { 'aria-label': `Go back to revision ${one.revision}` })) },
  ], all, { none: empty('No revision is kept', '') }));
}

async function back(one, refresh) {
  const told = await send('POST', '/api/v1/config/rollback?dry_run=true', { revision: one.revision });
  const about = told.changed.length ? `That changes ${told.changed.join(', ')}. It becomes a new revision, so that one can go forth again.` : 'That changes nothing but the number of the revision.';
  confirm(`Go back to revision ${one.revision}?`, about, 'Go back', async () => {
    await send('POST', '/api/v1/config/rollback', { revision: one.revision });
    await refresh();
  });
}

function profiles({ profiles: all }, refresh) {
  return h('div', { class: 'grid' }, all.map((one) => card(one.name || one.id, {
    side: may('config:write') && button('Apply', () => confirm(`Apply ${one.id}?`, 'It takes effect at once, as a new revision.', 'Apply', async () => {
      await send('POST', '/api/v1/profiles/apply', { profile: one.id });
      await refresh();
    }), { 'aria-label': `Apply profile ${one.id}` }),
  }, h('p', { class: 'quiet' }, one.description), h('p', { class: 'badges' }, badge(one.id, ''), badge(one.tier, 'low')))));
}

function configuration(told) {
  const { revision, ...rest } = told;
  return card('Effective configuration', { about: `revision ${revision}; secrets are masked` }, h('pre', { tabindex: '0', 'aria-label': 'Configuration' }, written(rest)));
}
