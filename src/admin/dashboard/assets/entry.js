// Entries of the audit log, as a row and in full.
import { h } from './dom.js';
import { attempt, isFault, may } from './api.js';
import { ms, time, words } from './format.js';
import { open } from './dialog.js';
import { badge, badges, button, code, facts, table } from './ui.js';

export const CATEGORIES = ['secrets', 'pii', 'injection', 'exfiltration', 'custom'];
export const SEVERITIES = ['critical', 'high', 'medium', 'low'];
const KINDS_MAX = 4;

const names = new Map();

// Learns what keys and users are called, where the role may know it: entries have only their ids.
export async function learnNames() {
  const lists = await Promise.all([
    may('keys:read') ? attempt('/api/v1/keys') : null,
    may('users:read') ? attempt('/api/v1/users') : null,
  ]);
  for (const told of lists) if (told && !isFault(told)) for (const one of told.keys ?? told.users) names.set(one.id, one.name);
}

const nodes = new Set();

// Learns which nodes write the log, where the role may know it, and returns them; one alone needs no name.
export async function learnNodes() {
  const told = may('infra:read') ? await attempt('/api/v1/cluster/health') : null;
  if (told && !isFault(told)) for (const one of told.nodes) nodes.add(one.id);
  return nodes.size > 1 ? [...nodes].sort() : [];
}

// The columns of a table of entries, with that of nodes where there are several.
export function columnsOf(entries) {
  for (const entry of entries) nodes.add(entry.node);
  return nodes.size > 1 ? [...columns.slice(0, -1), { name: 'Node', fixed: true, cell: (entry) => code(entry.node) }, columns.at(-1)] : columns;
}

const who = (id) => (names.has(id) ? h('span', { title: id }, names.get(id)) : code(id));

const columns = [
  { name: 'Time', cell: (entry) => time(entry.timestamp) },
  { name: 'Decision', cell: (entry) => badge(entry.action) },
  { name: 'Event', long: true, cell: (entry) => h('div', {}, h('strong', {}, words(entry.event_type)), entry.route && [' ', code(entry.route)], h('p', { class: 'quiet' }, entry.message)) },
  { name: 'Found', cell: found },
  { name: 'By', long: true, cell: (entry) => who(entry.actor) },
  { name: '', right: true, cell: (entry) => h('div', { class: 'actions' }, button('Details', () => detail(entry), { 'aria-label': `Details of ${words(entry.event_type)} at ${entry.timestamp}` })) },
];

// The kinds that were found, the gravest first, each once.
function found(entry) {
  const kinds = new Map();
  for (const finding of entry.findings ?? []) if (!kinds.has(finding.type)) kinds.set(finding.type, finding.severity);
  const sorted = [...kinds].sort((one, two) => SEVERITIES.indexOf(one[1]) - SEVERITIES.indexOf(two[1]));
  if (sorted.length === 0) return null;
  const shown = sorted.slice(0, KINDS_MAX).map(([kind, severity]) => badge(kind, severity));
  return h('span', { class: 'badges' }, shown, sorted.length > KINDS_MAX && badge(`+${sorted.length - KINDS_MAX}`, ''));
}

const findings = [
  { name: 'Detector', cell: (finding) => code(finding.type) },
  { name: 'Category', cell: (finding) => finding.category },
  { name: 'Severity', cell: (finding) => badge(finding.severity) },
  { name: 'Done', cell: (finding) => badge(finding.action) },
  { name: 'Sure', right: true, cell: (finding) => `${Math.round(finding.confidence * 100)} %` },
  { name: 'Match, masked', cell: (finding) => code(finding.redacted_match) },
];

const foreseen = [
  { name: 'Detector', cell: (finding) => code(finding.type) },
  { name: 'Would be done', cell: (finding) => badge(finding.action) },
];

export function detail(entry) {
  const related = entry.request_id && may('audit:read') ? h('a', { href: `/ui/audit?request_id=${encodeURIComponent(entry.request_id)}` }, 'All entries of this request') : null;
  open(words(entry.event_type),
    h('p', {}, entry.message),
    facts([
      ['Decision', badge(entry.action)],
      ['Gravest finding', entry.category && h('span', { class: 'badges' }, badge(entry.severity), badge(entry.category, ''))],
      ['When', time(entry.timestamp, { exact: true })],
      ['By', entry.actor && h('span', {}, names.get(entry.actor), ' ', code(entry.actor))],
      ['About', code(entry.entity)],
      ['Route', code(entry.route)],
      ['Request', entry.request_id && h('span', {}, code(entry.request_id), ' ', related)],
      ['Policy', entry.policy && h('span', {}, code(entry.policy), entry.revision ? ` at revision ${entry.revision}` : '')],
      ['Shadow policy', entry.shadow && h('span', {}, code(entry.shadow.policy), ' would have decided ', badge(entry.shadow.action))],
      ['Revision', entry.policy ? null : entry.revision],
      ['Node', nodes.size > 1 ? code(entry.node) : null],
      ['Took', entry.latency_ms === null || entry.latency_ms === undefined ? null : ms(entry.latency_ms)],
      ['Techniques', entry.techniques?.length ? badges(entry.techniques) : null],
      ['Id', code(entry.id)],
      ['Hash', code(entry.hash)],
      ['Hash before', code(entry.previous_hash)],
    ]),
    entry.findings?.length ? [h('h3', {}, 'Findings'), table('Findings', findings, entry.findings)] : null,
    entry.shadow?.findings.length ? [h('h3', {}, 'The shadow policy'), table('What the shadow policy would have done', foreseen, entry.shadow.findings)] : null);
}
