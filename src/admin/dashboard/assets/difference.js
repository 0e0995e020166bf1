// What differs between two texts, by line; and the merge patch that makes one document of another (RFC 7396).
import { h } from './dom.js';

const CELLS_MAX = 4_000_000;

// Returns `[sign, line]`s of the longest common subsequence; texts that are too long differ as a whole.
export function compare(before, after) {
  const [one, two] = [before.split('\n'), after.split('\n')];
  if (one.length * two.length > CELLS_MAX) return [...one.map((line) => ['-', line]), ...two.map((line) => ['+', line])];
  const common = Array.from({ length: one.length + 1 }, () => new Uint32Array(two.length + 1));
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = two.length - 1; j >= 0; j -= 1) common[i][j] = one[i] === two[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < one.length || j < two.length) {
    if (i < one.length && j < two.length && one[i] === two[j]) { lines.push([' ', one[i]]); i += 1; j += 1; }
    else if (j < two.length && (i === one.length || common[i][j + 1] > common[i + 1][j])) { lines.push(['+', two[j]]); j += 1; }
    else { lines.push(['-', one[i]]); i += 1; }
  }
  return lines;
}

const NEAR = 2;

// Shows changed lines with a few around them.
export function difference(before, after) {
  const lines = compare(before, after);
  const isNear = (at) => lines.slice(Math.max(0, at - NEAR), at + NEAR + 1).some(([sign]) => sign !== ' ');
  const shown = lines.map(([sign, line], at) => (isNear(at) ? h('span', { class: { '+': 'added', '-': 'removed' }[sign] }, `${sign} ${line}\n`) : null)).filter(Boolean);
  return shown.length ? h('pre', { tabindex: '0', 'aria-label': 'What differs' }, shown) : h('p', { class: 'quiet' }, 'The definition is as it was.');
}

const isTable = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

export function patchOf(before, after) {
  const patch = Object.fromEntries(Object.keys(before).filter((key) => !(key in after)).map((key) => [key, null]));
  for (const [key, value] of Object.entries(after)) patch[key] = isTable(before[key]) && isTable(value) ? patchOf(before[key], value) : value;
  return patch;
}
