// The API document, as a page: every path with its parameters, bodies, answers and examples to copy.
import { h } from './dom.js';
import { get } from './api.js';
import { count, words } from './format.js';
import { badge, card, code, empty, field, table } from './ui.js';

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];
const COLORS = { get: 'low', post: 'good', put: 'medium', patch: 'medium', delete: 'critical' };
const DEPTH_MAX = 5;

export async function show(root) {
  const document_ = await get('/openapi.json');
  const groups = grouped(document_);
  const search = h('input', { type: 'search', placeholder: 'path, word …', 'aria-label': 'Search the reference' });
  const counted = h('span', { class: 'quiet small', role: 'status' });
  const list = h('div', { class: 'fill' });
  const draw = () => {
    const text = search.value.trim().toLowerCase();
    const found = groups.map(([name, all]) => [name, all.filter((one) => `${one.method} ${one.path} ${one.told.summary}`.toLowerCase().includes(text))]).filter(([, all]) => all.length);
    counted.textContent = `${count(found.reduce((sum, [, all]) => sum + all.length, 0))} operations`;
    list.replaceChildren(...(found.length ? found.map(([name, all]) => card(name, { flush: true }, h('div', {}, all.map((one) => operation(one, document_))))) : [empty('Nothing fits', 'Try another word.')]));
  };
  search.addEventListener('input', draw);
  root.replaceChildren(
    card(document_.info.title, { about: `release ${document_.info.version}`, side: h('a', { class: 'button', href: '/openapi.json', download: 'openapi.json' }, 'OpenAPI document') },
      h('p', {}, document_.info.description),
      h('p', { class: 'quiet' }, 'A credential goes into X-API-Key, X-API-Token or Authorization: Bearer; pages of this origin may use the session. Every error is {"error": "…"}; every answer tells what is left of the quota.')),
    h('div', { class: 'toolbar' }, field('Search', search), counted), list);
  draw();
}

// Which paths belong together, by the first name in them; what is not named here stands by itself.
const AREAS = [
  ['Health and figures', ['health', 'ready', 'version', 'stats', 'status', 'metrics', 'sla']],
  ['Scanning', ['scan', 'screen']],
  ['Rules', ['config', 'policies', 'profiles', 'detectors', 'guardrails']],
  ['Record', ['audit', 'compliance', 'siem']],
  ['Privacy', ['legal-holds', 'dsar']],
  ['Analytics', ['analytics']],
  ['A/B tests', ['abtest']],
  ['Agents and trust', ['trust', '.well-known']],
  ['Access', ['keys', 'users', 'auth', 'login', 'sessions', 'signing', 'license', 'tier']],
  ['Deployment', ['persistence', 'certs', 'cluster']],
  ['Pages', ['', 'ui', 'docs', 'assets', 'openapi.json']],
];

function areaOf(path) {
  const first = path.replace(/^\/(api\/)?(v1\/)?/, '').split(/[/{]/)[0];
  return AREAS.find(([, names]) => names.includes(first))?.[0] ?? words(first.replaceAll('-', ' '));
}

function grouped(told) {
  const groups = new Map(AREAS.map(([name]) => [name, []]));
  for (const [path, item] of Object.entries(told.paths)) {
    for (const method of METHODS.filter((name) => item[name])) {
      const name = areaOf(path);
      groups.set(name, [...(groups.get(name) ?? []), { path, method, told: item[method] }]);
    }
  }
  return [...groups].filter(([, all]) => all.length);
}

function operation(one, document_) {
  const { path, method, told } = one;
  const details = h('details', { class: 'operation' }, h('summary', {}, h('span', { class: `method badge ${COLORS[method]}` }, method.toUpperCase()), code(path), h('span', { class: 'quiet' }, told.summary)));
  details.addEventListener('toggle', () => {
    if (details.open && details.childElementCount === 1) details.append(h('div', {}, inside(one, document_)));
  });
  return details;
}

function inside({ path, method, told }, document_) {
  const body = told.requestBody?.content?.['application/json']?.schema;
  const good = Object.entries(told.responses ?? {}).find(([status]) => /^[23]/.test(status));
  const media = Object.keys(good?.[1].content ?? {})[0];
  const answer = good?.[1].content?.[media]?.schema;
  return [
    h('p', { class: 'quiet' }, told.security ? 'Needs a credential.' : 'Needs no credential.'),
    told.parameters?.length ? [h('h3', {}, 'Parameters'), table(`Parameters of ${path}`, [
      { name: 'Name', cell: (one) => code(one.name) },
      { name: 'In', cell: (one) => one.in },
      { name: 'Type', cell: (one) => typeName(one.schema) },
      { name: 'Required', cell: (one) => (one.required ? 'yes' : 'no') },
    ], told.parameters)] : null,
    body ? [h('h3', {}, 'Body'), schema(body, document_)] : null,
    h('h3', {}, 'Answers'),
    table(`Answers of ${path}`, [
      { name: 'Status', cell: ([status]) => badge(status, /^[23]/.test(status) ? 'good' : /^5/.test(status) ? 'critical' : 'medium') },
      { name: 'Meaning', cell: ([, answered]) => prose(answered.description) },
      { name: 'Type', cell: ([, answered]) => Object.keys(answered.content ?? {}).map((name) => code(name)) },
    ], Object.entries(told.responses ?? {})),
    answer && media === 'application/json' ? [h('h3', {}, 'Body of the answer'), schema(answer, document_)] : null,
    h('h3', {}, 'Example'),
    h('pre', { tabindex: '0', 'aria-label': 'Example' }, example(path, method, body, document_)),
  ];
}

// What a description sets in backticks is code.
const prose = (text) => String(text ?? '').split('`').map((part, at) => (at % 2 ? code(part) : part));

const target = (reference, document_) => reference.replace('#/', '').split('/').reduce((place, name) => place?.[name], document_);
const resolve = (told, document_) => (told?.$ref ? target(told.$ref, document_) ?? {} : told ?? {});
const named = (told) => told?.$ref?.split('/').at(-1);

function typeName(told) {
  if (!told) return '';
  if (told.$ref) return named(told);
  const choices = told.oneOf ?? told.anyOf ?? told.allOf;
  if (choices) return choices.map(typeName).join(' or ');
  const types = [told.type ?? 'any'].flat();
  const inner = told.items ? ` of ${typeName(told.items)}` : '';
  const range = told.maximum === undefined ? '' : ` ${told.minimum ?? 0}–${told.maximum}`;
  return types.map((type) => (type === 'array' ? `list${inner}` : type)).join(' or ') + range;
}

// The fields of a body, those of bodies within it folded away.
function schema(told, document_, depth = 0) {
  const found = resolve(told, document_);
  if (found.items) return h('div', {}, h('p', { class: 'quiet' }, `A list of ${typeName(found.items)}.`), schema(found.items, document_, depth));
  const choices = (found.oneOf ?? []).filter((one) => one.$ref);
  if (choices.length) return h('div', {}, choices.map((one) => h('div', {}, h('p', { class: 'quiet' }, `As ${named(one)}:`), schema(one, document_, depth + 1))));
  const parts = [found, ...(found.allOf ?? []).map((part) => resolve(part, document_))];
  const fields = parts.flatMap((part) => Object.entries(part.properties ?? {}).map(([name, value]) => ({ name, value, required: part.required?.includes(name) })));
  if (fields.length === 0) return h('p', { class: 'quiet' }, prose(found.description ?? 'Any JSON.'));
  return h('div', {}, depth === 0 && found.description && h('p', { class: 'quiet' }, prose(found.description)), table(named(told) ?? 'Fields', [
    { name: 'Field', cell: (one) => h('span', {}, code(one.name), one.required ? '' : h('span', { class: 'quiet small' }, ' optional')) },
    { name: 'Type', cell: (one) => typeName(one.value) },
    { name: 'Meaning', long: true, cell: (one) => h('div', {}, prose(one.value.description ?? resolve(one.value, document_).description), within(one.value, document_, depth)) },
  ], fields));
}

function within(told, document_, depth) {
  const candidates = [told, told.items, told.additionalProperties, ...(told.oneOf ?? []), ...(told.allOf ?? [])];
  const inner = candidates.find((one) => one?.$ref);
  if (!inner || depth >= DEPTH_MAX) return null;
  const details = h('details', {}, h('summary', {}, named(inner)));
  details.addEventListener('toggle', () => {
    if (details.open && details.childElementCount === 1) details.append(schema(inner, document_, depth + 1));
  });
  return details;
}

function sample(told, document_, depth = 0) {
  const found = resolve(told, document_);
  if (found.example !== undefined) return found.example;
  const choices = (found.oneOf ?? found.anyOf)?.find((one) => one.type !== 'null');
  if (choices) return sample(choices, document_, depth);
  const type = [found.type].flat().find((one) => one && one !== 'null');
  if (found.properties || found.allOf) {
    if (depth > DEPTH_MAX) return {};
    const parts = [found, ...(found.allOf ?? []).map((part) => resolve(part, document_))];
    return Object.fromEntries(parts.flatMap((part) => Object.entries(part.properties ?? {}).filter(([name]) => depth === 0 || part.required?.includes(name)).map(([name, value]) => [name, sample(value, document_, depth + 1)])));
  }
  return { string: '…', integer: 1, number: 1, boolean: true, array: found.items ? [sample(found.items, document_, depth + 1)] : [], object: {} }[type] ?? null;
}

function example(path, method, body, document_) {
  const lines = [`curl -s ${location.origin}${path}`, '-H "X-API-Key: $KEY"'];
  if (method !== 'get') lines.splice(1, 0, `-X ${method.toUpperCase()}`);
  if (body) lines.push(`-d '${JSON.stringify(sample(body, document_), null, 2)}'`);
  return lines.join(' \\\n  ');
}
