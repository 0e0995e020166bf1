// Agents: what they may do, what they did, and what the gateway thinks of them and attests.
import { h } from './dom.js';
import { attempt, isFault, may } from './api.js';
import { bars } from './chart.js';
import { count, time, words } from './format.js';
import { open } from './dialog.js';
import { acting, badge, badges, card, code, empty, facts, problem, table, tiles } from './ui.js';

const UNLIMITED = 2_147_483_647;

export async function show(root) {
  const [rails, sessions] = await Promise.all([
    may('guardrails:read') ? attempt('/api/v1/guardrails') : null,
    may('trust:read') ? attempt('/api/v1/trust/sessions') : null,
  ]);
  root.replaceChildren(...[
    rails && (isFault(rails) ? problem(rails) : counters(rails)),
    agents(rails, sessions),
    sessions && (isFault(sessions) ? withheld(sessions) : sessionsOf(sessions.sessions)),
    rails && !isFault(rails) && settings(rails),
  ].filter(Boolean));
}

function counters(rails) {
  const denied = Object.entries(rails.counters.denied).filter(([, value]) => value > 0).sort((one, two) => two[1] - one[1]);
  const all = denied.reduce((sum, [, value]) => sum + value, 0);
  return h('div', { class: 'fill' },
    tiles([
      { id: 'agents', label: 'Agents', value: count(rails.agents.length), note: rails.enabled ? 'on the capability map' : 'no route is for agents' },
      { label: 'Capabilities', value: count(Object.keys(rails.capabilities).length) },
      { id: 'granted', label: 'Calls granted', value: count(rails.counters.granted), note: 'since the process began' },
      { id: 'denied', label: 'Calls denied', value: count(all), note: 'since the process began' },
    ]),
    denied.length > 0 && card('Why calls were denied', {}, bars(denied.map(([name, value]) => ({ name: code(name), value, text: count(value), parts: [{ color: 'blocked', value }] })))));
}

// Agents of the map, and those that have called.
function agents(rails, sessions) {
  const known = new Map();
  for (const agent of isFault(rails) ? [] : rails?.agents ?? []) known.set(agent.id, agent);
  for (const session of isFault(sessions) ? [] : sessions?.sessions ?? []) {
    const agent = known.get(session.agent_id) ?? { id: session.agent_id, capabilities: [], tier: '' };
    known.set(agent.id, { ...agent, calls: (agent.calls ?? 0) + session.calls, incidents: (agent.incidents ?? 0) + session.incidents });
  }
  return card('Agents', { flush: true }, table('Agents', [
    { name: 'Agent', long: true, cell: (agent) => h('strong', {}, agent.id) },
    { name: 'Tier', cell: (agent) => badge(agent.tier && words(agent.tier), 'low') },
    { name: 'May', long: true, cell: (agent) => badges(agent.capabilities) },
    { name: 'Calls', right: true, cell: (agent) => (agent.calls === undefined ? '' : count(agent.calls)) },
    { name: 'Incidents', right: true, cell: (agent) => (agent.incidents === undefined ? '' : count(agent.incidents)) },
    { name: '', right: true, cell: (agent) => may('trust:read') && h('div', { class: 'actions' }, acting('Trust', () => detail(agent.id), { 'aria-label': `Trust of ${agent.id}` })) },
  ], [...known.values()], { none: empty('There are no agents', 'Routes with auth = "a2a" are for agents that prove who they are; the capability map names them.') }));
}

// The role may: what is refused nevertheless is refused to the tier, which is no fault.
function withheld(fault) {
  return fault.status === 403 ? card('Sessions', {}, empty('Scores and attestations are not part of this tier', fault.message)) : problem(fault);
}

function sessionsOf(all) {
  return card('Sessions', { flush: true, about: 'of agents, the newest first' }, table('Sessions of agents', [
    { name: 'Agent', long: true, cell: (one) => h('strong', {}, one.agent_id) },
    { name: 'Verdict', cell: (one) => h('span', { class: 'badges' }, badge(one.verdict), one.active && badge('active', 'good')) },
    { name: 'Score', right: true, cell: (one) => one.score.toFixed(1) },
    { name: 'Calls', right: true, cell: (one) => count(one.calls) },
    { name: 'Incidents', right: true, cell: (one) => count(one.incidents) },
    { name: 'Since', cell: (one) => time(one.started_at) },
    { name: 'Last call', cell: (one) => time(one.last_seen) },
    { name: 'Session', cell: (one) => code(one.session_id) },
  ], all.slice(0, 200), { none: empty('No agent has called yet', '') }));
}

async function detail(id) {
  const [score, attested] = await Promise.all([
    attempt('/api/v1/trust/score', { agent: id, explain: true }),
    attempt('/api/v1/trust/attestations', { agent: id, limit: 100 }),
  ]);
  open(id,
    isFault(score) ? problem(score) : [
      h('p', { class: 'actions' }, badge(score.verdict), h('strong', { class: 'number' }, `${score.score.toFixed(1)} of 100`), h('span', { class: 'quiet' }, 'last call ', time(score.last_updated))),
      Object.entries(score.explanation ?? {}).map(([name, factor]) => h('section', {},
        h('h3', {}, `${words(name)}: ${factor.value.toFixed(2)}, ${factor.points.toFixed(1)} points of ${(factor.weight * 100).toFixed(0)}`),
        h('ul', {}, factor.reasons.map((reason) => h('li', { class: 'quiet' }, reason.at && [time(reason.at), ' '], reason.reason))))),
    ],
    h('h3', {}, 'Attestations'),
    isFault(attested) ? problem(attested) : table('Attestations', [
      { name: 'Issued', cell: (one) => time(one.issued_at) },
      { name: 'Counts until', cell: (one) => time(one.expires_at) },
      { name: 'Id', cell: (one) => code(one.id) },
      { name: 'Key', cell: (one) => code(one.signature.signatures[0]?.keyid.slice(0, 16)) },
    ], [...attested.attestations].reverse().slice(0, 20), { none: empty('Nothing was attested yet', '') }));
}

function settings(rails) {
  const least = Object.entries(rails.rate_limits).sort(([, one], [, other]) => one.requests_per_minute - other.requests_per_minute);
  const limits = least.map(([name, one]) => [words(name), one.requests_per_minute >= UNLIMITED ? 'unlimited' : `${count(one.requests_per_minute)} a minute, ${count(one.burst)} at once`]);
  const capabilities = Object.entries(rails.capabilities).map(([name, one]) => [code(name), words(one.min_tier)]);
  return h('div', { class: 'grid' },
    card('How agents are checked', {}, facts([
      ['Certificate', rails.mtls.required ? 'required' : 'not required'],
      ['Signature', `${rails.integrity.algorithm}${rails.integrity.signed_timestamp ? ', over the time too' : ''}`],
      ['Replay window', rails.replay_window_s ? `${rails.replay_window_s} s` : 'not checked'],
    ])),
    card('What an agent may ask for', {}, facts(limits)),
    capabilities.length > 0 && card('Capabilities', { about: 'and the least tier of each' }, facts(capabilities)));
}
