// The pieces that pages are made of.
import { h, unique } from './dom.js';

const GRADES = new Set(['critical', 'high', 'medium', 'low']);
const STATES = {
  good: ['healthy', 'up', 'connected', 'valid', 'pass', 'met', 'active', 'started', 'allow', 'trusted', 'ready', 'alive', 'member'],
  medium: ['monitor', 'expiring', 'partial', 'retrying', 'suspicious', 'redact', 'not_yet_valid', 'created', 'held', 'suspect'],
  critical: ['degraded', 'down', 'failed', 'block', 'blocked', 'fail', 'unmet', 'expired', 'denied', 'dead', 'left'],
};

export function grade(name) {
  const text = String(name ?? '').toLowerCase();
  if (GRADES.has(text)) return text;
  return Object.keys(STATES).find((state) => STATES[state].includes(text)) ?? '';
}

export const badge = (text, kind = grade(text)) => (text ? h('span', { class: `badge ${kind}` }, String(text).replaceAll('_', ' ')) : null);
export const badges = (texts) => h('span', { class: 'badges' }, texts.map((text) => badge(text)));
export const state = (text) => h('span', { class: `state ${grade(text) || 'none'}` }, String(text).replaceAll('_', ' '));
export const code = (text) => (text === null || text === undefined || text === '' ? null : h('code', {}, String(text)));
export const waiting = () => h('div', { class: 'waiting', role: 'status' }, h('span', { class: 'hidden' }, 'Loading'));

export function empty(title, text, ...more) {
  return h('div', { class: 'empty' }, h('strong', {}, title), text && h('p', {}, text), more);
}

export function problem(error, retry) {
  const named = error.status === 403 ? 'Your role may not see this: ' : '';
  return h('div', { class: 'notice problem', role: 'alert' },
    h('p', {}, `${named}${error.message}`),
    error.details?.length ? h('ul', {}, error.details.map((fault) => h('li', {}, fault))) : null,
    retry && h('p', {}, h('button', { type: 'button', on: { click: retry } }, 'Try again')));
}

export function card(title, { about, side, level = 'h2', flush = false, id } = {}, ...children) {
  const name = unique('card');
  return h('section', { class: flush ? 'card flush' : 'card', 'aria-labelledby': name, id },
    h('header', {}, h('div', {}, h(level, { id: name }, title), about && h('span', { class: 'about' }, about)), side && h('div', { class: 'actions' }, side)),
    children);
}

// `{ label, value, note }` in a row of tiles.
export const tiles = (all) => h('dl', { class: 'tiles' }, all.filter(Boolean).map(({ label, value, note, id }) =>
  h('div', { class: 'tile', data: id ? { figure: id } : {} }, h('dt', {}, label), h('dd', {}, value), note && h('dd', { class: 'note' }, note))));

export const facts = (all) => h('dl', { class: 'facts' }, all.filter(Boolean).filter(([, value]) => value !== null && value !== undefined && value !== '')
  .map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));

// A table that becomes a list of cards where it is narrow. A column is `{ name, cell, right, fixed, long }`: of figures,
// of what is not broken, of texts that may be long.
export function table(label, columns, rows, { none } = {}) {
  if (rows.length === 0 && none) return none;
  const body = h('tbody', { role: 'rowgroup' }, rows.map((row) => tableRow(columns, row)));
  const head = h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, columns.map((column) =>
    h('th', { scope: 'col', role: 'columnheader', class: column.right && 'right' }, column.name || h('span', { class: 'hidden' }, 'Actions')))));
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, h('table', { class: 'stacked', role: 'table', 'aria-label': label }, head, body));
}

export const tableRow = (columns, row) => h('tr', { role: 'row' }, columns.map((column) => {
  const kind = [column.right && 'right', (column.right || column.fixed) && 'number', column.long && 'long'].filter(Boolean).join(' ');
  return h('td', { role: 'cell', class: kind || undefined, data: { label: column.name } }, column.cell(row));
}));

export function field(label, input, hint) {
  return h('label', {}, h('span', {}, label, hint && h('span', { class: 'hint' }, ` ${hint}`)), input);
}

export const select = (name, options, chosen) => h('select', { name, value: chosen }, options.map((option) => {
  const [value, text] = Array.isArray(option) ? option : [option, String(option).replaceAll('_', ' ')];
  return h('option', { value }, text);
}));

export const button = (text, click, properties = {}) => h('button', { type: 'button', on: { click }, ...properties }, text);

// A button that waits for what it does, and says what went wrong.
export function acting(text, act, properties = {}) {
  const made = button(text, async () => {
    made.disabled = true;
    try { await act(); } catch (error) { toast(error.message); }
    made.disabled = false;
  }, properties);
  return made;
}

export function toast(text) {
  let place = document.querySelector('.toasts');
  if (!place) {
    place = h('div', { class: 'toasts', role: 'status', 'aria-live': 'polite' });
    document.body.append(place);
  }
  const line = h('p', {}, text);
  place.append(line);
  setTimeout(() => line.remove(), 8000);
}

export function tabs(label, all, first) {
  const shown = h('div', {});
  const buttons = all.map(([name, text]) => button(text, () => choose(name), { data: { tab: name }, 'aria-pressed': 'false' }));
  const choose = async (name) => {
    for (const one of buttons) one.setAttribute('aria-pressed', String(one.dataset.tab === name));
    const [, , make] = all.find(([known]) => known === name) ?? all[0];
    shown.replaceChildren(waiting());
    try { shown.replaceChildren(await make()); } catch (error) { shown.replaceChildren(problem(error, () => choose(name))); }
  };
  choose(first ?? all[0][0]);
  return [h('div', { class: 'actions', role: 'group', 'aria-label': label }, buttons), shown];
}

// What tells one part that can be opened from the others of a page, also after it was drawn anew.
const opener = (details) => [details.closest('section')?.querySelector('h2, h3'), details.closest('tr')?.cells[0], details.firstElementChild]
  .map((part) => part?.textContent ?? '').join('\n');

// Puts what was read anew in the place of what was there. What the reader had opened stays open, and keeps the focus.
export function swap(place, shown) {
  const known = [...place.querySelectorAll('details')];
  const opened = new Set(known.filter((one) => one.open).map(opener));
  const focused = known.find((one) => one.firstElementChild === document.activeElement);
  const focus = focused && opener(focused);
  place.replaceChildren(...shown);
  for (const one of place.querySelectorAll('details')) {
    const name = opener(one);
    if (opened.has(name)) one.open = true;
    if (name === focus) one.firstElementChild.focus({ preventScroll: true });
  }
}

// Something that is read, shown, and read again: `refresh` runs it anew.
export function live(read, show) {
  const place = h('div', {}, waiting());
  let reads = 0;
  const refresh = async () => {
    const mine = (reads += 1);
    let shown;
    try { shown = [show(await read(), refresh)].flat(); } catch (error) { shown = [problem(error, refresh)]; }
    // A slow answer does not take the place of a newer one.
    if (mine === reads) swap(place, shown);
  };
  refresh();
  return { place, refresh };
}
