// The nodes, the state on disk, the certificates that are served, the keys that sign, and how all of it is.
import { h } from './dom.js';
import { attempt, health, isFault, may } from './api.js';
import { bytes, count, duration, time, words } from './format.js';
import { badge, badges, card, code, empty, facts, problem, state, table } from './ui.js';

export async function show(root) {
  const infra = may('infra:read');
  const [well, status, cluster, store, certs, keys] = await Promise.all([
    health(),
    may('status:read') ? attempt('/api/v1/status') : null,
    infra ? attempt('/api/v1/cluster/health') : null,
    infra ? attempt('/api/v1/persistence') : null,
    infra ? attempt('/api/v1/certs') : null,
    may('keys:read') ? attempt('/api/v1/signing/keys') : null,
  ]);
  const part = (told, make) => (told ? (isFault(told) ? problem(told) : make(told)) : null);
  root.replaceChildren(...[
    h('div', { class: 'grid thirds' },
      card('Health', { side: state(well.status ?? 'unknown') }, facts(Object.entries(well.dependencies ?? {}).map(([name, told]) => [words(name), state(told)]))),
      part(status, node), part(store, persistence)),
    part(cluster, nodes), part(certs, certificates), part(keys, signing),
  ].filter(Boolean));
}

const node = (told) => card('This node', { about: told.node_id }, facts([
  ['Release', told.version], ['Tier', told.tier], ['Up for', duration(told.uptime_seconds)], ['Began', time(told.started_at)], ['Rules', `revision ${told.revision}`],
]));

const persistence = (told) => card('State', { side: badge(told.enabled ? 'kept' : 'in memory', told.enabled ? 'good' : 'medium') }, facts([
  ['Store', told.backend], ['Audit entries', h('span', { class: 'number', id: 'entry-count' }, count(told.entry_count))], ['Size', bytes(told.size_bytes)],
  ['Kept for', told.retention_days === null ? 'ever' : `${count(told.retention_days)} days`], ['Newest hash', code(told.last_hash)],
]));

function nodes(told) {
  return card('Cluster', { flush: true, about: told.enabled ? `${count(told.nodes.length)} nodes` : 'one node, which keeps its own state', side: badge(told.mode, '') }, table('Nodes', [
    { name: 'Node', cell: (one) => h('span', {}, code(one.id), ' ', one.id === told.node_id && badge('this one', 'low')) },
    { name: 'Status', cell: (one) => state(one.status) },
    { name: 'Address', cell: (one) => code(one.address) },
    { name: 'Revision', right: true, cell: (one) => String(one.revision) },
    { name: 'Heard of', cell: (one) => time(one.last_seen) },
  ], told.nodes));
}

function certificates({ certificates: all }) {
  return card('Certificates', { flush: true }, table('Certificates', [
    { name: 'Listener', cell: (one) => one.name },
    { name: 'Status', cell: (one) => badge(one.status) },
    { name: 'Subject', long: true, cell: (one) => one.subject },
    { name: 'Names', cell: (one) => badges(one.sans) },
    { name: 'Issuer', long: true, cell: (one) => one.issuer },
    { name: 'Ends', cell: (one) => time(one.not_after) },
    { name: 'Days left', right: true, cell: (one) => count(one.days_left) },
  ], all, { none: empty('No listener serves TLS', 'Name a certificate in [proxy.tls] or [admin.tls], or put a proxy that speaks HTTPS in front.') }));
}

function signing({ keys: all }) {
  return card('Signing keys', { flush: true, about: 'of tokens and attestations' }, table('Signing keys', [
    { name: 'Key', cell: (one) => code(one.kid) },
    { name: 'Status', cell: (one) => badge(one.status) },
    { name: 'Made', cell: (one) => time(one.created_at) },
    { name: 'Retired', cell: (one) => (one.retired_at ? time(one.retired_at) : null) },
  ], all));
}
