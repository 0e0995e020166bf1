// What the deployment is entitled to, and how well it serves.
import { h } from './dom.js';
import { get } from './api.js';
import { count, time, words } from './format.js';
import { badge, badges, card, facts, table } from './ui.js';

const UNLIMITED = 2_147_483_647;
const limit = (value) => (value >= UNLIMITED ? 'unlimited' : count(value));

export async function show(root) {
  const [license, tier, sla] = await Promise.all([get('/api/v1/license/status'), get('/api/v1/tier'), get('/api/v1/sla')]);
  root.replaceChildren(
    h('div', { class: 'grid' },
      card('Licence', { side: badge(license.valid ? 'valid' : 'does not count', license.valid ? 'good' : 'critical') }, facts([
        ['Tier', h('strong', { id: 'license-tier' }, license.tier)], ['Of', license.subject], ['Ends', license.valid || license.expires ? time(license.expires) : 'not known'],
      ]), license.reason && h('p', { class: 'notice problem' }, license.reason)),
      card('Tier', { side: badge(tier.tier, 'low') }, facts([
        ['A minute', `${limit(tier.limits.requests_per_minute)} requests`], ['At once', `${limit(tier.limits.burst)} requests`],
        ['Enabled', tier.features.length ? badges(tier.features) : 'what every tier has'],
      ])),
      card('Promise', {}, facts([['Up', sla.sla.uptime_target]]), h('p', { class: 'quiet' }, sla.sla.description))),
    card('Objectives', { flush: true, about: 'measured since the process began' }, table('Objectives', [
      { name: 'Objective', cell: (one) => words(one.name) },
      { name: 'Aim', cell: (one) => one.target },
      { name: 'Measured', cell: (one) => (one.current === 'n/a' ? h('span', { class: 'quiet' }, 'not yet') : h('strong', { class: 'number' }, one.current)) },
    ], sla.slos)));
}
