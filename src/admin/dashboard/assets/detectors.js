// Everything that can be found, to be searched: patterns, rules over findings, kinds of models.
import { h } from './dom.js';
import { get } from './api.js';
import { count, percent } from './format.js';
import { CATEGORIES, SEVERITIES } from './entry.js';
import { open } from './dialog.js';
import { badge, badges, button, card, code, empty, facts, field, select, table, tiles } from './ui.js';

const LAYERS = [['l1_regex', 'Patterns'], ['l2_rules', 'Rules over findings'], ['l3_ml', 'Models']];
const PAGE = 100;
const layerName = (id) => LAYERS.find(([known]) => known === id)?.[1] ?? id;

export async function show(root) {
  const { detectors, revision } = await get('/api/v1/detectors');
  const packs = [...new Set(detectors.map((one) => one.pack))].sort();
  const form = h('form', { class: 'toolbar', role: 'search', 'aria-label': 'Search the detectors' },
    field('Text', h('input', { name: 'text', type: 'search', placeholder: 'name, reason, technique …' })),
    field('Category', select('category', [['', 'All'], ...CATEGORIES])),
    field('Severity', select('severity', [['', 'All'], ...SEVERITIES])),
    field('Layer', select('layer', [['', 'All'], ...LAYERS])),
    field('Pack', select('pack', [['', 'All'], ...packs.map((name) => [name, name])])));
  const list = h('div', {});
  const counted = h('span', { class: 'quiet small number', role: 'status' });
  let shown = PAGE;
  const draw = () => {
    const wanted = Object.fromEntries(new FormData(form));
    const text = wanted.text.toLowerCase();
    const fits = (one) => ['category', 'severity', 'layer', 'pack'].every((key) => !wanted[key] || one[key] === wanted[key])
      && (!text || [one.type, one.why, one.pack, ...one.techniques].some((part) => part.toLowerCase().includes(text)));
    const found = detectors.filter(fits);
    counted.textContent = `${count(found.length)} of ${count(detectors.length)}`;
    list.replaceChildren(
      table('Detectors', columns, found.slice(0, shown), { none: empty('No detector fits', 'Widen the search.') }),
      found.length > shown ? h('div', { class: 'actions' }, button(`Show ${count(Math.min(PAGE, found.length - shown))} more`, () => { shown += PAGE; draw(); })) : '');
  };
  form.addEventListener('input', () => { shown = PAGE; draw(); });
  form.addEventListener('submit', (event) => event.preventDefault());
  const of = (key, value) => count(detectors.filter((one) => one[key] === value).length);
  root.replaceChildren(
    tiles([
      { id: 'all', label: 'In force', value: count(detectors.length), note: `revision ${revision}` },
      ...CATEGORIES.map((name) => ({ label: name, value: of('category', name) })),
    ]),
    form, card('Detectors', { flush: true, side: counted }, list));
  draw();
}

const columns = [
  { name: 'Name', cell: (one) => h('div', {}, code(one.type), h('p', { class: 'quiet small' }, `${one.pack} ${one.pack_version}`)) },
  { name: 'Severity', cell: (one) => badge(one.severity) },
  { name: 'Category', cell: (one) => one.category },
  { name: 'Layer', cell: (one) => layerName(one.layer) },
  { name: 'Sure', right: true, cell: (one) => percent(one.confidence, 0) },
  { name: 'Why', long: true, cell: (one) => one.why },
  { name: '', right: true, cell: (one) => h('div', { class: 'actions' }, button('Details', () => detail(one), { 'aria-label': `Details of ${one.type}` })) },
];

function detail(one) {
  open(one.type, h('p', {}, one.why),
    facts([
      ['Severity', h('span', { class: 'badges' }, badge(one.severity), badge(one.category, ''))],
      ['Layer', layerName(one.layer)],
      ['Sure on its own', percent(one.confidence, 0)],
      ['Pack', `${one.pack} ${one.pack_version}`],
      ['Techniques', one.techniques.length ? badges(one.techniques) : null],
    ]),
    h('h3', {}, { l1_regex: 'Pattern', l2_rules: 'Condition', l3_ml: 'Model' }[one.layer] ?? 'Source'),
    h('pre', { tabindex: '0' }, one.source));
}
