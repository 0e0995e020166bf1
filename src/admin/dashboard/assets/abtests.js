// A/B tests of the third layer: the figures of each variant, the intervals they lie in, what is real, what was stopped.
import { h } from './dom.js';
import { attempt, get, isAdmin, isFault, may, path, send } from './api.js';
import { intervals } from './chart.js';
import { count, ms, percent, time } from './format.js';
import { confirm, form } from './dialog.js';
import { acting, badge, button, card, code, empty, facts, field, live, problem, table } from './ui.js';

const COLORS = ['passed', 'redacted', 'blocked', 'failed', 'good', 'quiet'];
const MODELS_HINT = '(default, off, or a model; perhaps ?bias=0.5 behind it)';
const ONE = '/api/v1/abtest/tests/';
const LIVE_MS = 15_000;

export async function show(root) {
  const archived = h('input', { type: 'checkbox', name: 'archived' });
  const read = async () => {
    const { tests } = await get('/api/v1/abtest/tests', archived.checked ? { archived: true } : {});
    const metrics = await Promise.all(tests.map((test) => attempt(`${ONE}${encodeURIComponent(test.id)}/metrics`)));
    return tests.map((test, at) => ({ test, metrics: metrics[at] })).reverse();
  };
  const { place, refresh } = live(read, (all) => (all.length === 0
    ? card('Tests', {}, empty('There are no tests', 'A test routes the third layer of live traffic to two or more models, and counts what comes of it.'))
    : all.map((one) => oneTest(one, refresh))));
  place.className = 'fill';
  archived.addEventListener('change', refresh);
  root.replaceChildren(h('div', { class: 'actions' }, h('label', { class: 'check' }, archived, 'Show archived tests'), isAdmin && button('New test', () => create(refresh), { class: 'main push', id: 'new-test' })), place);
  const timer = setInterval(() => { if (!document.hidden && !document.querySelector('dialog')) refresh(); }, LIVE_MS);
  window.addEventListener('pagehide', () => clearInterval(timer), { once: true });
}

function oneTest({ test, metrics }, refresh) {
  const move = (verb) => async () => { await send('POST', path`/api/v1/abtest/tests/${test.id}/` + verb); await refresh(); };
  const side = may('abtest:write') && [
    test.status === 'started' ? acting('Stop', move('stop')) : acting('Start', move('start'), { class: 'main' }),
    !test.archived && acting('Archive', move('archive')),
    isAdmin && test.status !== 'started' && button('Delete', () => confirm(`Delete ${test.name}?`, 'Its figures go with it.', 'Delete', async () => {
      await send('DELETE', path`/api/v1/abtest/tests/${test.id}`);
      await refresh();
    }), { class: 'grave', 'aria-label': `Delete test ${test.name}` }),
  ];
  const weights = test.variants.reduce((sum, variant) => sum + variant.weight, 0);
  return card(test.name, { side },
    test.description && h('p', { class: 'quiet' }, test.description),
    h('p', { class: 'badges' }, badge(test.status), test.routes_traffic && badge('routes live traffic', 'good'), test.archived && badge('archived', '')),
    facts([
      ['Made', time(test.created_at)], ['Started', test.started_at && time(test.started_at)],
      ['Guard rail', `a variant stops past ${percent(test.guard_rail.max_block_rate, 0)} blocked of ${count(test.guard_rail.min_requests)} requests`],
    ]),
    isFault(metrics) ? problem(metrics, refresh) : [
      h('h3', {}, `Detection rate, with the interval the true one lies in (${percent(metrics[0]?.confidence_interval.level ?? 0.95, 0)})`),
      intervals(`Detection rates of ${test.name}`, metrics.map((one, at) => ({ name: one.variant_name, rate: one.detection_rate, low: one.confidence_interval.low, high: one.confidence_interval.high, color: COLORS[at % COLORS.length] })), (value) => percent(value)),
      table(`Variants of ${test.name}`, variants(test, weights), metrics),
    ]);
}

function variants(test, weights) {
  const of = (metrics) => test.variants.find((variant) => variant.name === metrics.variant_name);
  return [
    { name: 'Variant', long: true, cell: (one) => h('div', {}, h('strong', {}, one.variant_name), h('p', { class: 'small' }, code(of(one)?.model_ref))) },
    { name: 'Share', right: true, cell: (one) => percent((of(one)?.weight ?? 0) / weights, 0) },
    { name: 'Requests', right: true, cell: (one) => h('div', {}, count(one.total_requests), h('p', { class: 'quiet small' }, `${count(one.live_requests)} live`)) },
    { name: 'Detections', right: true, cell: (one) => count(one.detections) },
    { name: 'False', right: true, cell: (one) => count(one.false_positives) },
    { name: 'Blocked', right: true, cell: (one) => count(one.blocks) },
    { name: 'Mean time', right: true, cell: (one) => ms(one.avg_latency_ms) },
    { name: 'Against the first', cell: compared },
    { name: 'State', cell: (one) => (one.stopped ? h('div', {}, badge('stopped', 'critical'), h('p', { class: 'quiet small' }, `${percent(one.stopped.block_rate)} were blocked, `, time(one.stopped.at))) : badge('gets its share', 'good')) },
  ];
}

function compared({ significance: told }) {
  if (!told) return h('span', { class: 'quiet' }, 'is the first');
  if (told.p_value === null) {
    return h('div', { title: told.method }, badge('not proven', ''), h('p', { class: 'quiet small' }, 'nothing to compare yet'));
  }
  const sign = told.difference >= 0 ? '+' : '−';
  return h('div', { title: told.method }, badge(told.is_significant ? 'real' : 'not proven', told.is_significant ? 'high' : ''), h('p', { class: 'quiet small number' }, `${sign}${percent(Math.abs(told.difference))}, p ${told.p_value < 0.001 ? '< 0.001' : `= ${told.p_value.toFixed(3)}`}`), h('p', { class: 'quiet small' }, `of ${count(told.compared_requests)} compared`));
}

function create(refresh) {
  const rows = h('div', { class: 'fill' });
  const add = (name = '', model = 'default') => rows.append(h('div', { class: 'fields', data: { variant: '' } },
    field('Variant', h('input', { name: 'variant', required: true, value: name })),
    field('Model', h('input', { name: 'model_ref', required: true, value: model })),
    field('Weight', h('input', { name: 'weight', type: 'number', min: 0, step: 'any', required: true, value: '50' }))));
  add('control');
  add('candidate', 'off');
  form('New A/B test', {
    button: 'Make the test',
    fields: [
      h('div', { class: 'fields' }, field('Name', h('input', { name: 'name', required: true })), field('For what', h('input', { name: 'description' }))),
      h('fieldset', {}, h('legend', {}, `Variants; the first is what the others are compared with ${MODELS_HINT}`), rows, h('div', { class: 'actions' }, button('Another variant', () => add()))),
      h('fieldset', {}, h('legend', {}, 'Guard rail'), h('div', { class: 'fields' },
        field('Largest share blocked', h('input', { name: 'max_block_rate', type: 'number', min: 0, max: 1, step: 'any', value: '0.5' })),
        field('Of at least so many requests', h('input', { name: 'min_requests', type: 'number', min: 1, step: 1, value: '200' })))),
    ],
    send: async (values) => {
      const [names, models, weights] = ['variant', 'model_ref', 'weight'].map((name) => values.getAll(name));
      await send('POST', '/api/v1/abtest/tests', {
        name: values.get('name'),
        description: values.get('description'),
        variants: names.map((name, at) => ({ name, model_ref: models[at], weight: Number(weights[at]) })),
        guard_rail: { max_block_rate: Number(values.get('max_block_rate')), min_requests: Number(values.get('min_requests')) },
      });
      await refresh();
    },
  });
}
