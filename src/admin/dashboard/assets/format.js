// Numbers and times, as people read them.
import { h } from './dom.js';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const fine = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
const NEVER = 'never';

export const count = (value) => whole.format(value ?? 0);
export const compact = (value) => (Math.abs(value ?? 0) < 10_000 ? count(value) : short.format(value));
export const decimal = (value) => fine.format(value ?? 0);
export const percent = (share, digits = 1) => `${((share ?? 0) * 100).toFixed(digits)} %`;
export const money = (value, currency = 'USD') => {
  const digits = Math.abs(value) >= 100 || value === 0 ? 2 : 4;
  return new Intl.NumberFormat('en', { style: 'currency', currency, minimumFractionDigits: 2, maximumFractionDigits: digits }).format(value ?? 0);
};

export function ms(value) {
  if (value === null || value === undefined) return 'n/a';
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  return value >= 100 ? `${value.toFixed(0)} ms` : `${fine.format(value)} ms`;
}

export function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [size, at] = [value ?? 0, 0];
  while (size >= 1024 && at < units.length - 1) [size, at] = [size / 1024, at + 1];
  return `${at === 0 ? size : size.toFixed(1)} ${units[at]}`;
}

export function duration(seconds) {
  const units = [['d', 86_400], ['h', 3600], ['min', 60], ['s', 1]];
  const from = units.findIndex(([, size]) => seconds >= size);
  if (from < 0) return '0 s';
  let rest = seconds;
  return units.slice(from, from + 2).map(([unit, size]) => {
    const part = Math.floor(rest / size);
    rest -= part * size;
    return part > 0 ? `${part} ${unit}` : '';
  }).filter(Boolean).join(' ');
}

const pad = (value) => String(value).padStart(2, '0');
export const day = (date) => `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
export const clock = (date) => `${pad(date.getHours())}:${pad(date.getMinutes())}`;

// A moment in the reader's own time; the exact one in UTC is behind it.
export function time(text, { exact = false } = {}) {
  if (!text) return h('span', { class: 'quiet' }, NEVER);
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return h('span', {}, String(text));
  if (date.getFullYear() >= 9999) return h('span', {}, NEVER);
  const seconds = exact ? `:${pad(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}` : `:${pad(date.getSeconds())}`;
  const shown = `${day(date) === day(new Date()) && !exact ? '' : `${day(date)} `}${clock(date)}${seconds}`;
  return h('time', { class: 'number', datetime: text, title: `${date.toISOString()} (UTC)` }, shown);
}

// What an API calls `some_name`, in words.
const SPELT = [[/\bpii\b/gi, 'PII'], [/\ba2a\b/gi, 'A2A'], [/\babtest\b/gi, 'A/B test'], [/\bapi\b/gi, 'API'], [/\bslo\b/gi, 'SLO'], [/\bioc\b/gi, 'IOC'], [/\brbac\b/gi, 'RBAC'], [/\bp99\b/gi, 'p99']];
export const words = (name) => {
  const text = SPELT.reduce((all, [from, to]) => all.replace(from, to), String(name ?? '').replaceAll('_', ' '));
  return text.charAt(0).toUpperCase() + text.slice(1);
};
