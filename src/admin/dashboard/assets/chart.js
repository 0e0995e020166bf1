// Figures drawn as SVG: columns that may be stacked, lines, bars, intervals. Each has a name, a legend where there are
// several series, a reading where one points or goes with the arrow keys, and the same figures as a table.
import { h, svg } from './dom.js';
import { compact } from './format.js';

const EDGE = { top: 8, right: 4, bottom: 20 };
// What a letter of an axis takes, and the widest column that is drawn.
const LETTER = 6.4;
const COLUMN_MAX = 44;
// The letters of a name that are drawn.
const NAME_MAX = 20;

// Returns the steps of an axis that ends at or above `most`.
export function steps(most, wanted = 4) {
  if (!(most > 0)) return [0, 1];
  const raw = most / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= raw);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, at) => at * step);
}

// Draws anew whenever the place becomes wider or narrower.
function fitted(height, draw) {
  const picture = svg('svg', { height, role: 'img', tabindex: '0' });
  let last = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (width === last || width < 40) return;
    last = width;
    picture.setAttribute('viewBox', `0 0 ${width} ${height}`);
    picture.replaceChildren(...draw(width));
  }).observe(picture);
  return picture;
}

function axes({ width, height, left, ticks, scale, format, points, label }) {
  const rules = ticks.flatMap((tick) => [
    svg('line', { class: 'rule', x1: left, x2: width - EDGE.right, y1: scale(tick), y2: scale(tick) }),
    svg('text', { x: left - 6, y: scale(tick) + 4, 'text-anchor': 'end' }, format(tick)),
  ]);
  const step = (width - left - EDGE.right) / points.length;
  const every = Math.max(1, Math.ceil(64 / step));
  const names = points.map((point, at) => (at % every === 0
    ? svg('text', { x: left + step * (at + 0.5), y: height - 5, 'text-anchor': 'middle' }, label(point)) : null));
  return [...rules, ...names.filter(Boolean)];
}

// `series`: `{ name, color, value(point) }`; `kind`: `columns` (stacked) or `lines`.
export function chart(title, points, series, { kind = 'columns', height = 180, format = compact, label, full = label } = {}) {
  const sum = (point) => series.reduce((all, one) => all + (one.value(point) ?? 0), 0);
  const top = (point) => (kind === 'columns' ? sum(point) : Math.max(...series.map((one) => one.value(point) ?? 0)));
  const ticks = steps(Math.max(0, ...points.map(top)));
  const left = 12 + LETTER * Math.max(3, ...ticks.map((tick) => format(tick).length));
  const scale = (value) => height - EDGE.bottom - (value / ticks.at(-1)) * (height - EDGE.top - EDGE.bottom);
  const reading = h('p', { class: 'reading', 'aria-live': 'polite' });
  const say = (point) => `${full(point)}: ${series.map((one) => `${one.name} ${one.value(point) === null ? 'n/a' : format(one.value(point))}`).join(', ')}`;
  const pointed = svg('rect', { class: 'pointed', y: EDGE.top, height: height - EDGE.top - EDGE.bottom, width: 0, x: 0 });
  let at = -1;
  const picture = fitted(height, (width) => {
    const step = (width - left - EDGE.right) / points.length;
    const frame = { width, height, left, ticks, scale, format, points, label };
    const marks = (kind === 'columns' ? columns : lines)(points, series, { step, left, scale });
    return [...axes(frame), pointed, ...marks];
  });
  const point = (to) => {
    at = Math.max(0, Math.min(points.length - 1, to));
    const width = picture.viewBox.baseVal.width;
    const step = (width - left - EDGE.right) / points.length;
    pointed.setAttribute('x', left + step * at);
    pointed.setAttribute('width', Math.max(1, step));
    reading.textContent = say(points[at]);
  };
  picture.setAttribute('aria-label', `${title}. ${points.length} points; the arrow keys read them one by one.`);
  picture.addEventListener('pointermove', (event) => {
    const box = picture.getBoundingClientRect();
    point(Math.floor(((event.clientX - box.left - left) / (box.width - left - EDGE.right)) * points.length));
  });
  picture.addEventListener('keydown', (event) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: points.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    point(to);
  });
  return h('figure', { class: 'chart' }, series.length > 1 ? legend(series) : null, picture, reading, asTable(title, points, series, { format, full }));
}

export const legend = (series) => h('ul', { class: 'key' }, series.map(({ name, color }) => h('li', {}, h('i', { class: `c-${color}` }), name)));

function columns(points, series, { step, left, scale }) {
  const gap = step > 6 ? 2 : step > 3 ? 1 : 0;
  const width = Math.min(COLUMN_MAX, Math.max(1, step - gap));
  return points.flatMap((point, at) => {
    let below = 0;
    return series.map((one) => {
      const value = one.value(point) ?? 0;
      if (value <= 0) return null;
      const [from, to] = [scale(below), scale(below + value)];
      below += value;
      return svg('rect', { class: `mark c-${one.color}`, fill: 'currentColor', x: left + (at + 0.5) * step - width / 2, y: to, width, height: Math.max(0.5, from - to) });
    }).filter(Boolean);
  });
}

// A run of points is a line; one alone is a dot.
function lines(points, series, { step, left, scale }) {
  return series.flatMap((one) => {
    const runs = [[]];
    points.forEach((point, at) => {
      const value = one.value(point);
      if (value === null || value === undefined) runs.push([]);
      else runs.at(-1).push([left + step * (at + 0.5), scale(value)]);
    });
    return runs.filter((run) => run.length).map((run) => (run.length === 1
      ? svg('circle', { class: `mark c-${one.color}`, fill: 'currentColor', cx: run[0][0], cy: run[0][1], r: 3.5 })
      : svg('path', { class: `line c-${one.color}`, stroke: 'currentColor', d: `M${run.map((place) => place.map((part) => part.toFixed(1)).join(' ')).join('L')}` })));
  });
}

function asTable(title, points, series, { format, full }) {
  const details = h('details', {}, h('summary', {}, 'Figures'));
  details.addEventListener('toggle', () => {
    if (!details.open || details.childElementCount > 1) return;
    const rows = points.filter((point) => series.some((one) => one.value(point)));
    details.append(rows.length === 0 ? h('p', { class: 'quiet' }, 'All figures are zero.')
      : h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title }, h('table', {},
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'When'), series.map((one) => h('th', { scope: 'col', class: 'right' }, one.name)))),
        h('tbody', {}, rows.map((point) => h('tr', {}, h('th', { scope: 'row' }, full(point)), series.map((one) => h('td', { class: 'right number' }, one.value(point) === null ? 'n/a' : format(one.value(point))))))))));
  });
  return details;
}

// A list with a bar for each: `{ name, value, text, parts: [{ color, value }] }`.
export function bars(rows) {
  const most = Math.max(...rows.map((row) => row.value), 0);
  return h('ul', { class: 'bars' }, rows.map((row) => {
    const parts = row.parts ?? [{ color: 'passed', value: row.value }];
    const spans = parts.filter((part) => part.value > 0).map((part) => h('span', { class: `c-${part.color}`, style: { width: `${(100 * part.value) / (most || 1)}%` } }));
    return h('li', {}, h('span', { class: 'name' }, row.name), h('span', { class: 'number quiet' }, row.text), h('span', { class: 'track', 'aria-hidden': 'true' }, spans));
  }));
}

// Rates with the intervals the true ones lie in, on one scale: `{ name, rate, low, high, color }`.
export function intervals(title, rows, format) {
  const most = Math.min(1, Math.max(0.01, ...rows.map((row) => row.high)) * 1.1);
  const [left, line] = [8, 44];
  const height = rows.length * line + 22;
  const picture = fitted(height, (width) => {
    const scale = (value) => left + (value / most) * (width - 2 * left);
    const ticks = steps(most).filter((tick) => tick <= most);
    // A label in the middle of its tick would be cut off at the edge.
    const anchor = (tick) => {
      if (tick === 0) return 'start';
      return scale(tick) + (format(tick).length * LETTER) / 2 > width ? 'end' : 'middle';
    };
    return [
      ...ticks.flatMap((tick) => [
        svg('line', { class: 'rule', x1: scale(tick), x2: scale(tick), y1: 4, y2: height - 18 }),
        svg('text', { x: scale(tick), y: height - 5, 'text-anchor': anchor(tick) }, format(tick)),
      ]),
      ...rows.flatMap((row, at) => {
        const y = at * line + 32;
        return [
          svg('text', { x: left, y: y - 12 }, `${row.name.length > NAME_MAX ? `${row.name.slice(0, NAME_MAX)}…` : row.name}: ${format(row.rate)} (${format(row.low)} to ${format(row.high)})`),
          svg('line', { class: `line c-${row.color}`, stroke: 'currentColor', x1: scale(row.low), x2: scale(row.high), y1: y, y2: y }),
          svg('circle', { class: `mark c-${row.color}`, fill: 'currentColor', cx: scale(row.rate), cy: y, r: 5 }),
        ];
      }),
    ];
  });
  picture.setAttribute('aria-label', `${title}: ${rows.map((row) => `${row.name} ${format(row.rate)}, between ${format(row.low)} and ${format(row.high)}`).join('; ')}`);
  return h('figure', { class: 'chart' }, picture);
}

// A share of a whole, in parts: `{ color, value, name }`.
export function meter(label, parts) {
  const all = parts.reduce((sum, part) => sum + part.value, 0) || 1;
  const told = parts.map((part) => `${part.value} ${part.name}`).join(', ');
  return h('div', { class: 'meter', role: 'img', 'aria-label': `${label}: ${told}` }, parts.filter((part) => part.value > 0)
    .map((part) => h('span', { class: `c-${part.color}`, style: { width: `${(100 * part.value) / all}%` } })));
}
