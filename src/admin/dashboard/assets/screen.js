// A text, and what the rules in force make of it.
import { h } from './dom.js';
import { attempt, isFault, may, send } from './api.js';
import { ms, percent } from './format.js';
import { badge, badges, card, code, empty, field, problem, select, table, tiles } from './ui.js';

const threats = [
  { name: 'Detector', cell: (threat) => h('div', {}, code(threat.type), h('p', { class: 'quiet small' }, threat.rule_id)) },
  { name: 'Severity', cell: (threat) => h('span', { class: 'badges' }, badge(threat.severity), badge(threat.category, '')) },
  { name: 'Match, masked', long: true, cell: (threat) => h('div', {}, code(threat.redacted_match), threat.decoded_from && h('p', { class: 'quiet small' }, `behind ${threat.decoded_from}`)) },
  { name: 'Bytes', right: true, cell: (threat) => `${threat.start}–${threat.end}` },
  { name: 'Sure', right: true, cell: (threat) => percent(threat.confidence, 0) },
  { name: 'Layer', cell: (threat) => threat.layer },
  { name: 'Techniques', cell: (threat) => badges(threat.techniques) },
];

export async function show(root) {
  const known = may('policies:read') ? await attempt('/api/v1/policies') : null;
  const policies = known && !isFault(known) ? known.policies.map((policy) => [policy.id, policy.name || policy.id]) : [['default', 'default']];
  const text = h('textarea', { name: 'text', required: true, rows: 8, spellcheck: 'false', placeholder: 'Paste a prompt, an answer, or any other text.' });
  const answer = h('div', { class: 'fill', 'aria-live': 'polite' }, card('Result', {}, empty('Nothing was screened yet', 'Nothing you write here reaches a provider. What is found in it is recorded, masked, with your name.')));
  const go = h('button', { class: 'main' }, 'Screen');
  const form = h('form', { class: 'card' }, field('Text', text),
    h('div', { class: 'toolbar' },
      field('As', select('way', [['prompt', 'a prompt'], ['response', 'an answer of a model']])),
      field('Policy', select('policy', policies, 'default')), go));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    go.disabled = true;
    const way = form.elements.way.value;
    const address = way === 'prompt' ? '/api/v1/screen' : '/api/v1/screen/response';
    try {
      answer.replaceChildren(...shown(await send('POST', address, { [way]: text.value, policy: form.elements.policy.value })));
    } catch (error) { answer.replaceChildren(problem(error)); }
    go.disabled = false;
  });
  root.replaceChildren(form, answer);
}

function shown(told) {
  return [
    tiles([
      { id: 'action', label: 'Decision', value: badge(told.action), note: told.reason },
      { id: 'risk', label: 'Risk', value: String(told.risk_score), note: 'from 0 to 100' },
      { id: 'threats', label: 'Threats', value: String(told.threats.length), note: told.layers_triggered.join(', ') || 'no layer fired' },
      { id: 'took', label: 'Time', value: ms(told.scan_time_ms), note: `${told.policy}, revision ${told.revision}` },
    ]),
    card('Threats', { flush: true }, table('Threats', threats, told.threats, { none: empty('Nothing was found', 'The text passes as it is.') })),
    told.redacted_content !== undefined && card('What would pass', {}, h('pre', { tabindex: '0' }, told.redacted_content)),
  ].filter(Boolean);
}
