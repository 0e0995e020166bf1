// Fills a gateway, through its own doors, with what a dashboard shows: traffic, people, keys, holds, tests; with names
// that would act, if any page made markup of them.

export const HOSTILE = '<img src=x onerror="document.title=\'owned\'">';
const SCRIPT = '</script><script>document.title="owned"</script>';
// Values without an owner that pass their checks; put together here, so that none stands in the tree.
const CARD = ['4111', '1111', '1111', '1111'].join(' ');
const secret = () => ['AKIA', 'Q3EGRI7QYTVN4ZPC'].join('');

export class Gateway {
  constructor(admin, proxy, key) {
    Object.assign(this, { admin, proxy, key });
  }

  async ask(method, path, body, key = this.key) {
    const options = { method, headers: { 'x-api-key': key } };
    if (body !== undefined) options.body = JSON.stringify(body);
    const response = await fetch(this.admin + path, options);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    try { return JSON.parse(text); } catch { return text; }
  }

  // Says something to the provider; returns the status.
  async say(text, { model = 'gpt-4o-mini', headers = {}, path = '/v1/chat/completions' } = {}) {
    const body = JSON.stringify({ model, messages: [{ role: 'user', content: text }] });
    const response = await fetch(this.proxy + path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body });
    await response.text();
    return response.status;
  }

  leak() {
    return this.say(`Why is ${secret()} refused?`);
  }
}

const until = async (what, holds) => {
  const deadline = Date.now() + 30_000;
  for (;;) {
    if (await holds()) return;
    if (Date.now() > deadline) throw new Error(`in vain: ${what}`);
    await new Promise((done) => { setTimeout(done, 50); });
  }
};

async function traffic(gateway) {
  const said = [];
  for (let at = 0; at < 6; at += 1) said.push(await gateway.say(`Which trains leave for Lisbon on day ${at}?`, { model: at % 2 ? 'gpt-4o-mini' : 'gpt-4o' }));
  said.push(await gateway.say('Hello', { model: HOSTILE, headers: { 'user-agent': HOSTILE, 'x-request-id': HOSTILE.replaceAll(' ', '/') } }));
  said.push(await gateway.say('Hello', { model: SCRIPT }));
  for (let at = 0; at < 3; at += 1) said.push(await gateway.leak());
  for (let at = 0; at < 2; at += 1) said.push(await gateway.say(`Please repeat my card ${CARD} once`));
  said.push(await gateway.say('fail: 500'));
  return said;
}

async function records(gateway) {
  const made = {};
  made.key = await gateway.ask('POST', '/api/v1/keys', { name: HOSTILE, role: 'service', budget: { tokens_per_day: 200_000, cost_per_month: 50 }, models: ['gpt-4o*'] });
  for (const role of ['operator', 'auditor', 'analyst', 'service']) made[role] = await gateway.ask('POST', '/api/v1/keys', { name: `${role} of the tests`, role });
  await gateway.ask('POST', '/api/v1/users', { name: 'ada', password: 'correct horse battery', role: 'auditor' });
  made.hold = await gateway.ask('POST', '/api/v1/legal-holds', { entity_id: HOSTILE, entity_type: HOSTILE, reason: SCRIPT, issued_by: HOSTILE });
  await gateway.ask('POST', '/api/v1/legal-holds', { entity_id: 'bob@people.example', entity_type: 'user', reason: 'Case 12 / 2026', issued_by: 'legal@people.example' });
  made.test = await gateway.ask('POST', '/api/v1/abtest/tests', { name: HOSTILE, description: SCRIPT, variants: [{ name: HOSTILE, weight: 50, model_ref: 'default' }, { name: 'without', weight: 50, model_ref: 'off' }] });
  await gateway.ask('POST', `/api/v1/abtest/tests/${made.test.id}/start`);
  for (let at = 0; at < 40; at += 1) {
    const variant_name = at % 2 ? 'without' : HOSTILE;
    await gateway.ask('POST', `/api/v1/abtest/tests/${made.test.id}/result`, { variant_name, detected: at % 2 === 0 && at % 8 !== 0, false_positive: at % 16 === 2, latency_ms: 1.5 + (at % 5) });
  }
  await gateway.ask('POST', '/api/v1/policies', { id: 'hostile', name: HOSTILE, description: SCRIPT, categories: { secrets: { mode: 'block', threshold: 'medium' } } });
  return made;
}

// Fills the gateway; returns what was made, and how many requests it had.
export async function seed(gateway) {
  const statuses = await traffic(gateway);
  const made = await records(gateway);
  await until('every request is counted', async () => (await gateway.ask('GET', '/api/v1/analytics/usage')).request_count >= statuses.length);
  return { ...made, statuses };
}
