// What was used and what it cost, by day, model, caller and route.
import { h } from './dom.js';
import { get } from './api.js';
import { bars, chart } from './chart.js';
import { compact, count, money, ms, percent } from './format.js';
import { card, code, empty, field, problem, table, tiles, waiting } from './ui.js';

const DAYS = 30;

// The days of reports are those of UTC, wherever somebody looks at them.
const day = (at) => at.toISOString().slice(0, 10);

export async function show(root) {
  const first = new Date();
  first.setUTCDate(first.getUTCDate() - DAYS + 1);
  const form = h('form', { class: 'toolbar' },
    field('From', h('input', { name: 'from', type: 'date', required: true, value: day(first) })),
    field('To', h('input', { name: 'to', type: 'date', required: true, value: day(new Date()) }), '(that day included)'),
    h('button', { class: 'main' }, 'Show'));
  const content = h('div', { class: 'fill' });
  let reads = 0;
  const refresh = async () => {
    const mine = (reads += 1);
    content.replaceChildren(waiting());
    const last = new Date(form.elements.to.value);
    last.setUTCDate(last.getUTCDate() + 1);
    const period = { from: form.elements.from.value, to: new Date(Math.min(last, Date.now())).toISOString() };
    try {
      const [usage, cost] = await Promise.all([get('/api/v1/analytics/usage', period), get('/api/v1/analytics/cost', period)]);
      if (mine === reads) content.replaceChildren(...report(usage, cost));
    } catch (error) { if (mine === reads) content.replaceChildren(problem(error, refresh)); }
  };
  form.addEventListener('submit', (event) => { event.preventDefault(); refresh(); });
  root.replaceChildren(form, content);
  await refresh();
}

// Every day of a period, also those without traffic.
function everyDay(rows, report) {
  const days = new Map(rows.map((row) => [row.day, row]));
  const all = [];
  for (let at = new Date(report.period_start.slice(0, 10)); at < new Date(report.period_end); at.setUTCDate(at.getUTCDate() + 1)) {
    const name = at.toISOString().slice(0, 10);
    all.push(days.get(name) ?? { day: name, cost: 0, prompt_tokens: 0, completion_tokens: 0 });
  }
  return all;
}

function report(usage, cost) {
  const of = (value) => money(value, cost.currency);
  const header = tiles([
    { id: 'cost', label: 'Cost', value: of(cost.total), note: cost.estimated ? `${of(cost.estimated)} of it estimated` : 'from counts of the providers' },
    { id: 'tokens', label: 'Tokens', value: compact(usage.total_tokens), note: `${compact(usage.prompt_tokens)} read, ${compact(usage.completion_tokens)} written` },
    { id: 'cached', label: 'From caches', value: compact(usage.cached_tokens), note: usage.prompt_tokens ? `${percent(usage.cached_tokens / usage.prompt_tokens)} of what was read` : 'nothing was read' },
    { id: 'reasoning', label: 'Thinking', value: compact(usage.reasoning_tokens), note: 'of what was written' },
    { id: 'requests', label: 'Requests', value: count(usage.request_count), note: `${percent(usage.error_rate)} failed` },
    { id: 'unpriced', label: 'Without a price', value: compact(cost.unpriced_tokens), note: `tokens of ${count(cost.unpriced_requests)} requests` },
  ]);
  if (usage.request_count === 0) return [header, card('By day', {}, empty('Nothing was used', 'No request passed on these days.'))];
  const label = (point) => point.day.slice(5);
  const full = (point) => `${point.day} (UTC)`;
  return [header,
    h('div', { class: 'grid' },
      card('Cost by day', { about: cost.currency }, chart('Cost by day', everyDay(cost.by_day, cost), [{ name: 'Cost', color: 'passed', value: (point) => point.cost }], { label, full, format: of })),
      card('Tokens by day', {}, chart('Tokens by day', everyDay(usage.by_day, usage), [
        { name: 'Read', color: 'passed', value: (point) => point.prompt_tokens },
        { name: 'Written', color: 'redacted', value: (point) => point.completion_tokens },
      ], { label, full }))),
    card('Models', { flush: true }, models(usage, cost, of)),
    h('div', { class: 'grid' }, card('Callers', {}, callers(cost, of)), card('Routes', { flush: true }, routes(usage)))];
}

function models(usage, cost, of) {
  const rows = Object.entries(usage.by_model).map(([name, figures]) => ({ name, ...figures, ...cost.by_model[name] }));
  rows.sort((one, two) => (two.cost ?? 0) - (one.cost ?? 0) || two.total_tokens - one.total_tokens);
  return table('Models', [
    { name: 'Model', long: true, cell: (row) => code(row.name) },
    { name: 'Requests', right: true, cell: (row) => count(row.request_count) },
    { name: 'Read', right: true, cell: (row) => compact(row.prompt_tokens) },
    { name: 'Written', right: true, cell: (row) => compact(row.completion_tokens) },
    { name: 'Mean time', right: true, cell: (row) => ms(row.avg_latency_ms) },
    { name: 'Cost', right: true, cell: (row) => (row.price_source ? of(row.cost) : h('span', { class: 'quiet' }, 'no price')) },
    { name: 'Price of', cell: (row) => (row.price_source ? h('a', { href: row.price_source, rel: 'noreferrer' }, row.price_seen) : null) },
  ], rows);
}

function callers(cost, of) {
  const rows = cost.by_user.map((user) => ({ name: user.name ? [user.name, ' ', h('span', { class: 'quiet small' }, user.user)] : code(user.user), value: user.total_tokens, text: `${compact(user.total_tokens)} tokens, ${of(user.cost)}` }));
  return rows.length ? bars(rows) : empty('Nobody yet', '');
}

function routes(usage) {
  return table('Routes', [
    { name: 'Route', cell: (row) => code(row.route) },
    { name: 'Requests', right: true, cell: (row) => count(row.request_count) },
    { name: 'Blocked', right: true, cell: (row) => count(row.blocked_count) },
    { name: 'Redacted', right: true, cell: (row) => count(row.redacted_count) },
    { name: 'Failed', right: true, cell: (row) => count(row.error_count) },
    { name: 'Mean time', right: true, cell: (row) => ms(row.avg_latency_ms) },
  ], usage.by_route);
}
