// How the deployment stands against frameworks of controls: each control, its checks, and what they saw.
import { h } from './dom.js';
import { get } from './api.js';
import { meter } from './chart.js';
import { count, time, words } from './format.js';
import { badge, button, card, empty, facts, field, problem, select, state, table, tiles, waiting } from './ui.js';

const STATUSES = ['fail', 'partial', 'pass', 'not_assessed'];
const COLORS = { pass: 'good', partial: 'failed', fail: 'blocked', not_assessed: 'quiet' };
const share = (value) => `${(value ?? 0).toFixed(1)} %`;
const parts = (summary) => ['pass', 'partial', 'fail', 'not_assessed'].map((name) => ({ name: words(name).toLowerCase(), color: COLORS[name], value: summary?.[name] ?? 0 }));

export async function show(root) {
  const told = await get('/api/v1/compliance/live');
  const report = h('div', { class: 'fill', id: 'report' });
  const read = async (id) => {
    history.replaceState(null, '', `?framework=${encodeURIComponent(id)}`);
    report.replaceChildren(waiting());
    try { report.replaceChildren(...shown(await get('/api/v1/compliance', { framework: id }))); } catch (error) { report.replaceChildren(problem(error, () => read(id))); }
    report.scrollIntoView({ block: 'start', behavior: 'smooth' });
  };
  const frameworks = Object.entries(told.frameworks).map(([id, one]) => card(one.name, { side: button('Controls', () => read(id), { 'aria-label': `Controls of ${one.name}`, data: { framework: id } }) },
    h('p', { class: 'quiet small' }, one.version),
    h('p', { class: 'actions' }, state(one.status), h('span', { class: 'push number' }, h('strong', {}, share(one.score)), h('span', { class: 'quiet' }, ' of what was assessed pass'))),
    meter(one.name, parts(one.summary)),
    h('p', { class: 'quiet small' }, `${share(one.coverage)} assessed. `, one.failing.length ? `Failing: ${one.failing.slice(0, 8).join(', ')}${one.failing.length > 8 ? ' …' : ''}` : 'None fails.')));
  const { summary } = told;
  root.replaceChildren(
    tiles([
      { id: 'score', label: 'Score', value: share(summary.score), note: 'of what was assessed' },
      { id: 'coverage', label: 'Assessed', value: share(summary.coverage), note: `of ${count(summary.controls)} controls` },
      ...STATUSES.map((name) => ({ label: words(name), value: count(summary.by_status[name] ?? 0), note: 'controls' })),
    ]),
    h('div', { class: 'grid' }, frameworks), report);
  const asked = new URLSearchParams(location.search).get('framework');
  if (asked) await read(asked);
}

function shown(one) {
  const wanted = select('status', [['', 'All'], ...STATUSES.map((name) => [name, words(name)])]);
  const list = h('div', {});
  const draw = () => list.replaceChildren(table('Controls', columns, one.controls.filter((control) => !wanted.value || control.status === wanted.value), { none: empty('No control stands so', '') }));
  wanted.addEventListener('change', draw);
  draw();
  const address = (format) => `/api/v1/compliance?framework=${encodeURIComponent(one.framework)}&format=${format}`;
  const side = [
    h('a', { class: 'button', href: address('html'), target: '_blank', rel: 'noopener' }, 'Report to print'),
    h('a', { class: 'button', href: address('oscal'), download: `${one.framework}-oscal.json` }, 'OSCAL'),
    h('a', { class: 'button', href: address('json'), download: `${one.framework}.json` }, 'JSON'),
  ];
  return [card(one.name, { side, about: one.version, flush: true },
    facts([['Stands', state(one.status)], ['Pass', `${share(one.score)} of what was assessed`], ['Judged', time(one.generated_at)], ['Source', one.source ? h('a', { href: one.source, rel: 'noreferrer' }, one.source) : null]]),
    h('div', { class: 'toolbar' }, field('Status', wanted)), list)];
}

const columns = [
  { name: 'Control', long: true, cell: (control) => h('div', {}, h('strong', {}, control.id), h('p', {}, control.title)) },
  { name: 'Status', cell: (control) => badge(control.status) },
  { name: 'Evidence', cell: (control) => (control.evidence.length === 0 ? h('span', { class: 'quiet' }, 'The gateway cannot know.') : h('details', {}, h('summary', {}, `${count(control.evidence.length)} check${control.evidence.length === 1 ? '' : 's'}`), h('ul', { class: 'points' }, control.evidence.map(evidence)))) },
];

const evidence = (one) => h('li', {}, h('p', {}, badge(one.result), ' ', one.question), h('p', { class: 'quiet small' }, one.observed, one.links.map((link) => [' ', h('a', { href: link }, 'Evidence')])));
