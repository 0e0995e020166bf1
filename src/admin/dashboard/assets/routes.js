// Routes: which path leads to which provider, by whom it is taken and which policy judges it; changed with a check before.
import { h } from './dom.js';
import { may, send, tagged } from './api.js';
import { form } from './dialog.js';
import { difference } from './difference.js';
import { acting, badge, card, code, empty, field, problem, table } from './ui.js';

const CONFIG = '/api/v1/config';
const written = (all) => JSON.stringify(all, null, 2);
const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

export function routes({ routes: all = [], revision }, refresh) {
  const side = may('config:write') && acting('Edit routes', () => change(refresh), { id: 'edit-routes' });
  return card('Routes', { flush: true, about: `revision ${revision}; the longest path that fits is taken`, side }, table('Routes', [
    { name: 'Route', cell: (route) => code(route.name) },
    { name: 'Path', cell: (route) => code(route.path_prefix) },
    { name: 'Provider', cell: (route) => [code(text(route.upstream)), ' ', badge(route.dialect, '')] },
    { name: 'Callers show', cell: (route) => (route.auth && route.auth !== 'transparent' ? badge(route.auth, '') : h('span', { class: 'quiet' }, 'the provider’s credential')) },
    { name: 'Policy', cell: (route) => badge(route.policy ?? 'default', '') },
  ], all, { none: empty('There is no route', 'Nothing is passed on to a provider.') }));
}

async function change(refresh) {
  const [{ routes: before = [] }, tag] = await tagged(CONFIG);
  const definition = h('textarea', { name: 'routes', class: 'code', spellcheck: 'false', required: true, value: written(before) });
  const outcome = h('div', { class: 'fill', 'aria-live': 'polite', id: 'outcome' });
  const read = () => {
    try { return { routes: JSON.parse(definition.value) }; } catch (error) { throw new Error(`the routes are not valid JSON: ${error.message}`, { cause: error }); }
  };
  const check = async () => {
    try {
      const wanted = read();
      const told = await send('PUT', `${CONFIG}?dry_run=true`, wanted);
      outcome.replaceChildren(
        h('p', { class: 'notice' }, told.changed.length ? `It is sound, and would change ${told.changed.join(', ')}.` : 'It is sound, and changes nothing.'),
        difference(written(before), written(wanted.routes)));
    } catch (error) { outcome.replaceChildren(problem(error)); }
  };
  form('Routes', {
    button: 'Put in force',
    about: 'A check compiles the whole configuration with the change, and changes nothing. What is put in force is a new revision.',
    fields: [field('Routes', definition), h('div', { class: 'actions' }, acting('Check', check, { id: 'check' })), outcome],
    send: async () => {
      await send('PUT', CONFIG, read(), { 'if-match': tag });
      await refresh();
    },
  });
}
