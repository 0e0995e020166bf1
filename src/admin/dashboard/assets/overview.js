// What passed and what was stopped in a period, and how the gateway is now.
import { h } from './dom.js';
import { attempt, health, isFault, may } from './api.js';
import { bars, chart } from './chart.js';
import { clock, compact, count, day, duration, money, ms, percent, time, words } from './format.js';
import { badge, card, code, empty, facts, field, problem, select, state, swap, tiles } from './ui.js';

const REFRESH_MS = 60_000;
const HOUR_MS = 3_600_000;
const PERIODS = [['24', 'Last 24 hours'], ['72', 'Last 3 days'], ['168', 'Last 7 days'], ['720', 'Last 30 days']];
const HOURS_SHOWN_MAX = 72;
const ID_MAX = 16;

const KINDS = [
  { name: 'Passed', color: 'passed', value: (hour) => hour.request_count - hour.blocked_count - hour.redacted_count - Math.min(hour.error_count, hour.request_count - hour.blocked_count - hour.redacted_count) },
  { name: 'Redacted', color: 'redacted', value: (hour) => hour.redacted_count },
  { name: 'Blocked', color: 'blocked', value: (hour) => hour.blocked_count },
  { name: 'Failed', color: 'failed', value: (hour) => Math.min(hour.error_count, hour.request_count - hour.blocked_count - hour.redacted_count) },
];

export async function show(root) {
  const period = select('period', PERIODS, '24');
  const updated = h('span', { class: 'quiet small', role: 'status' });
  const content = h('div', { class: 'fill' });
  let reads = 0;
  const refresh = async () => {
    const mine = (reads += 1);
    const shown = await read(Number(period.value));
    // A slow answer does not take the place of a newer one.
    if (mine !== reads) return;
    swap(content, shown);
    updated.textContent = `Read at ${clock(new Date())}`;
  };
  period.addEventListener('change', () => refresh());
  root.replaceChildren(h('div', { class: 'toolbar' }, field('Period', period), updated), content);
  await refresh();
  const timer = setInterval(() => { if (!document.hidden) refresh().catch(() => {}); }, REFRESH_MS);
  window.addEventListener('pagehide', () => clearInterval(timer), { once: true });
}

async function read(hours) {
  const from = new Date(Math.floor(Date.now() / HOUR_MS) * HOUR_MS - (hours - 1) * HOUR_MS).toISOString();
  const asks = [
    may('analytics:read') ? attempt('/api/v1/analytics/dashboard', { from }) : null,
    may('analytics:read') ? attempt('/api/v1/analytics/anomalies', { from }) : null,
    may('status:read') ? attempt('/api/v1/status') : null,
    may('infra:read') ? attempt('/api/v1/persistence') : null,
    attempt('/api/v1/health').then((told) => (isFault(told) ? health() : told)),
  ];
  const [figures, anomalies, status, store, well] = await Promise.all(asks);
  return [
    ...(figures ? (isFault(figures) ? [problem(figures)] : traffic(figures, hours)) : []),
    h('div', { class: 'grid pairs' },
      anomalies && !isFault(anomalies) && unusual(anomalies),
      wellbeing(well, isFault(status) ? null : status, isFault(store) ? null : store)),
  ].filter(Boolean);
}

// Periods of many hours are drawn by the day: columns of an hour would be thinner than a line.
function byDay(hours) {
  const days = new Map();
  for (const hour of hours) {
    const name = hour.hour.slice(0, 10);
    const sum = days.get(name) ?? { hour: name, time_ms: 0 };
    for (const key of ['request_count', 'blocked_count', 'redacted_count', 'error_count', 'total_tokens', 'cost']) sum[key] = (sum[key] ?? 0) + hour[key];
    sum.time_ms += hour.avg_latency_ms * hour.request_count;
    sum.avg_latency_ms = sum.request_count ? sum.time_ms / sum.request_count : 0;
    days.set(name, sum);
  }
  return [...days.values()];
}

function traffic(figures, period) {
  const { totals, currency, latency } = figures;
  const isByDay = period > HOURS_SHOWN_MAX;
  const points = isByDay ? byDay(figures.hours) : figures.hours;
  const label = (point) => (isByDay ? point.hour.slice(5) : clock(new Date(point.hour)));
  const full = (point) => (isByDay ? `${point.hour} (UTC)` : `${day(new Date(point.hour))} ${clock(new Date(point.hour))}`);
  const axis = { label, full };
  const share = (part) => (totals.request_count ? percent(part / totals.request_count) : 'none');
  const header = tiles([
    { id: 'requests', label: 'Requests', value: count(totals.request_count), note: `${compact(totals.total_tokens)} tokens` },
    { id: 'blocked', label: 'Blocked', value: count(totals.blocked_count), note: share(totals.blocked_count) },
    { id: 'redacted', label: 'Redacted', value: count(totals.redacted_count), note: share(totals.redacted_count) },
    { id: 'failed', label: 'Failed', value: count(totals.error_count), note: share(totals.error_count) },
    { id: 'latency', label: 'Mean time', value: totals.request_count ? ms(totals.avg_latency_ms) : 'n/a', note: 'provider included' },
    { id: 'cost', label: 'Cost', value: money(figures.cost, currency), note: totals.estimated_tokens ? `${compact(totals.estimated_tokens)} tokens estimated` : 'at the prices of the day' },
  ]);
  if (totals.request_count === 0) {
    return [header, card('Traffic', {}, empty('No traffic in this period', 'Requests that applications send through the gateway are counted here within a second.', may('scan:run') && h('a', { href: '/ui/screen' }, 'Try a text')))];
  }
  const charts = h('div', { class: 'grid pairs' },
    card('Requests', { about: isByDay ? 'by day of UTC' : 'by hour' }, chart('Requests', points, KINDS, { ...axis, height: 250 })),
    card('Time', { about: 'mean, provider included' },
      chart('Mean time', points, [{ name: 'Mean', color: 'passed', value: (hour) => (hour.request_count ? hour.avg_latency_ms : null) }], { ...axis, kind: 'lines', format: ms, height: 150 }),
      facts([['Half within', ms(latency.p50_ms)], ['95 % within', ms(latency.p95_ms)], ['99 % within', ms(latency.p99_ms)], ['Measured since', time(latency.since)]])),
    card('Cost', { about: currency }, chart('Cost', points, [{ name: 'Cost', color: 'passed', value: (hour) => hour.cost }], { ...axis, height: 150, format: (value) => money(value, currency) })),
    card('Tokens', {}, chart('Tokens', points, [{ name: 'Tokens', color: 'passed', value: (hour) => hour.total_tokens }], { ...axis, height: 150 })));
  const nothing = () => empty('Nothing was found', 'No detector had anything to say about this period.');
  const callers = figures.top_users.map((user) => ({ ...user, name: user.name ?? shortened(user.user) }));
  const found = figures.top_findings;
  const lists = [
    h('div', { class: 'grid pairs' },
      card('Found most', { about: 'exchanges, by detector', id: 'findings' }, found.length ? findings(found) : nothing()),
      card('Found by category', { about: 'findings' }, found.length ? bars(categories(found)) : nothing())),
    h('div', { class: 'grid thirds' },
      card('Models', {}, ranked(figures.top_models, currency)),
      card('Routes', {}, ranked(figures.top_routes, currency)),
      card('Callers', {}, ranked(callers, currency))),
  ];
  return [header, charts, ...lists];
}

// A hash is known by its beginning; the whole of it is behind that.
const shortened = (id) => (id.length > ID_MAX ? h('span', { title: id }, `${id.slice(0, ID_MAX)}…`) : id);

const parts = (row) => [
  { color: 'blocked', value: row.blocked },
  { color: 'redacted', value: row.redacted },
  { color: 'quiet', value: row.exchanges - row.blocked - row.redacted },
];
const done = (row) => [[row.blocked, 'blocked'], [row.redacted, 'redacted'], [row.exchanges - row.blocked - row.redacted, 'recorded']].filter(([value]) => value > 0).map(([value, name]) => `${count(value)} ${name}`).join(', ');

function findings(all) {
  return bars(all.slice(0, 10).map((row) => ({ name: [code(row.type), ' ', h('span', { class: 'quiet' }, row.category)], value: row.exchanges, text: done(row), parts: parts(row) })));
}

function categories(all) {
  const sums = new Map();
  for (const row of all) {
    const sum = sums.get(row.category) ?? { exchanges: 0, blocked: 0, redacted: 0 };
    for (const key of Object.keys(sum)) sum[key] += row[key];
    sums.set(row.category, sum);
  }
  const rows = [...sums].sort((one, two) => two[1].exchanges - one[1].exchanges);
  return rows.map(([name, row]) => ({ name: words(name), value: row.exchanges, text: done(row), parts: parts(row) }));
}

function ranked(all, currency) {
  if (all.length === 0) return empty('Nothing yet', '');
  return bars(all.slice(0, 8).map((row) => ({ name: row.name, value: row.total_tokens || row.request_count || 0, text: `${compact(row.total_tokens)} tokens, ${money(row.cost, currency)}` })));
}

function unusual(all) {
  const list = all.slice(0, 6).map((one) => h('li', {}, h('p', {}, badge(one.severity), ' ', h('strong', {}, words(one.type)), ' ', h('span', { class: 'quiet' }, time(one.timestamp))), h('p', { class: 'quiet' }, one.description)));
  return card('Out of the ordinary', { about: `${count(all.length)} in this period`, id: 'anomalies' }, all.length ? h('ul', { class: 'points' }, list) : empty('Nothing stands out', 'Hours that lie far from comparable ones are named here, with the figures that say so.'));
}

function wellbeing(well, status, store) {
  const dependencies = Object.entries(well?.dependencies ?? {}).map(([name, told]) => [words(name), state(told)]);
  return card('Health', { side: state(well?.status ?? 'unknown'), id: 'health' }, facts([
    ...dependencies,
    ['Release', well?.version],
    ['Up for', status && duration(status.uptime_seconds)],
    ['Rules', status && `revision ${status.revision}`],
    ['Audit entries', store && count(store.entry_count)],
    ['Newest hash', store?.last_hash && code(`${store.last_hash.slice(0, 16)}…`)],
  ]));
}
