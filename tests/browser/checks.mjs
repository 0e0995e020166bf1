// What is checked on the pages of the dashboard, one function an area. Each gets `{ gateway, made, open, check }` and a
// page on which an administrator has signed in.

const number = (text) => Number(text.replace(/[^\d.]/g, ''));
const figure = async (page, name) => number(await page.locator(`[data-figure=${name}] dd`).first().innerText());
const until = async (what, holds) => {
  const deadline = Date.now() + 30_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`in vain: ${what}`);
    await new Promise((done) => { setTimeout(done, 50); });
  }
};
const closeDialog = async (page) => {
  await page.locator('dialog').getByRole('button', { name: 'Close' }).click();
  await page.locator('dialog').waitFor({ state: 'detached' });
};
const sent = async (page) => page.locator('dialog').waitFor({ state: 'detached' });

export async function figures({ gateway, made, check }, page) {
  await page.visit('/');
  const told = await gateway.ask('GET', '/api/v1/analytics/dashboard');
  const { totals } = told;
  check('what was sent is what is counted', [totals.request_count, totals.blocked_count, totals.redacted_count, totals.error_count], [made.statuses.length, 3, 2, 1]);
  const names = ['requests', 'blocked', 'redacted', 'failed'];
  const shown = await Promise.all(names.map((name) => figure(page, name)));
  check('and what is shown', shown, [totals.request_count, totals.blocked_count, totals.redacted_count, totals.error_count]);
  check('the cost is that of the API', Math.abs(await figure(page, 'cost') - told.cost) < 0.00005 + 1e-12);
  const findings = await page.locator('#findings li').allInnerTexts();
  check('so are the findings', told.top_findings.map(({ type }, at) => findings[at]?.includes(type)), told.top_findings.map(() => true));
  check('the gravest was blocked each time', told.top_findings[0], { category: 'secrets', type: 'aws_access_key_id', exchanges: 3, blocked: 3, redacted: 0 });
  check('the gateway is well', await page.locator('#health .state').first().innerText(), 'healthy');
  await page.locator('summary').first().click();
  // The table is made as it is opened.
  await page.locator('figure details[open] tbody tr').first().waitFor();
  const rows = await page.locator('figure details[open] tbody tr').allInnerTexts();
  check('the figures of a chart are there as a table', rows.some((row) => /\b3\b/.test(row) && /\b2\b/.test(row)));
  // Whatever is drawn anew, what was opened stays open, and is filled.
  await page.locator('figure details').evaluateAll((all) => all.forEach((one) => { one.dataset.before = ''; }));
  await page.locator('[name=period]').selectOption('72');
  await until('the figures are read again', async () => (await page.locator('figure details').count()) > 0 && (await page.locator('[data-before]').count()) === 0);
  await page.locator('figure details[open] tbody tr').first().waitFor();
  check('and stay there over a refresh, those that were opened', await page.locator('figure details[open]').count(), 1);
  await page.visit('/ui/usage');
  const usage = await gateway.ask('GET', '/api/v1/analytics/usage');
  check('tokens are those of the API', await figure(page, 'tokens'), usage.total_tokens);
  check('every model has its row', await page.locator('table').first().locator('tbody tr').count(), Object.keys(usage.by_model).length);
}

const rowIds = (page) => page.locator('#entries tbody tr').count();

export async function live({ gateway, check }, page) {
  await page.visit('/ui/live');
  await until('the stream is open', async () => (await page.locator('#connection').innerText()) === 'Live');
  const address = page.url();
  let loads = 0;
  page.on('load', () => { loads += 1; });
  const before = await rowIds(page);
  await gateway.leak();
  await page.locator('#entries tbody tr').first().getByText('aws access key id').waitFor();
  const first = page.locator('#entries tbody tr').first();
  check('a blocked request appears by itself', [await first.locator('.badge').first().innerText(), await rowIds(page), page.url(), loads], ['block', before + 1, address, 0]);
  await page.locator('[name=action]').selectOption('block');
  check('a filter leaves what fits', [...new Set(await page.locator('#entries tbody tr td:nth-child(2)').allInnerTexts())], ['block']);
  await page.locator('[name=text]').fill('no such text');
  await page.getByText('Nothing fits the filter').waitFor();
  await page.locator('[name=text]').fill('');
  await page.locator('[name=action]').selectOption('');
  // The connection goes, things happen, and it comes back: nothing is missing, and nothing is there twice.
  await page.context().setOffline(true);
  await page.evaluate(() => window.dispatchEvent(new Event('online')));
  await until('the stream is broken', async () => (await page.locator('#connection').innerText()) === 'Not connected');
  for (let at = 0; at < 3; at += 1) await gateway.say(`While nobody listened ${at}`);
  await page.context().setOffline(false);
  await page.evaluate(() => window.dispatchEvent(new Event('online')));
  await until('what was missed comes', async () => (await rowIds(page)) >= Math.min(100, before + 4));
  const { entries } = await gateway.ask('GET', '/api/v1/audit?limit=100');
  const shown = await page.locator('#entries tbody tr time').evaluateAll((all) => all.map((one) => one.getAttribute('datetime')));
  check('after a break nothing is missing and nothing is there twice', shown, entries.slice(0, shown.length).map((entry) => entry.timestamp));
  page.excuse(/ERR_INTERNET_DISCONNECTED/);
  // However often the network is said to be back, there is one stream: longer than the wait for the next attempt.
  for (let at = 0; at < 2; at += 1) await page.evaluate(() => window.dispatchEvent(new Event('online')));
  await page.waitForTimeout(4000);
  await until('the stream is open again', async () => (await page.locator('#connection').innerText()) === 'Live');
  await page.getByRole('button', { name: 'Pause' }).click();
  const still = await rowIds(page);
  await gateway.say('While it was paused');
  await page.getByRole('button', { name: /Resume \(1 new\)/ }).waitFor();
  check('a paused list stands still', await rowIds(page), still);
  await page.getByRole('button', { name: /Resume/ }).click();
  await until('the list goes on', async () => (await rowIds(page)) === Math.min(100, still + 1));
}

async function audit({ gateway, check }, page) {
  for (let at = 0; at < 45; at += 1) await gateway.say(`One more ${at}`);
  await page.visit('/ui/audit?category=secrets');
  const secrets = await gateway.ask('GET', '/api/v1/audit?category=secrets');
  check('a filter in the address counts', await page.locator('tbody tr').count(), secrets.total);
  await page.getByRole('button', { name: 'Reset' }).click();
  await until('the first page', async () => (await page.locator('tbody tr').count()) === 50);
  const times = () => page.locator('tbody tr time').evaluateAll((all) => all.map((one) => one.getAttribute('datetime')));
  const first = await times();
  await page.locator('#older').click();
  await until('the second page', async () => (await page.locator('#total').innerText()).startsWith('51 to'));
  const second = await times();
  const { entries } = await gateway.ask('GET', '/api/v1/audit?limit=1000');
  check('two pages follow each other', [...first, ...second], entries.slice(0, first.length + second.length).map((entry) => entry.timestamp));
  await page.locator('#newer').click();
  await until('the first page again', async () => (await page.locator('#total').innerText()).startsWith('1 to'));
  await page.getByRole('button', { name: /^Details/ }).first().click();
  check('an entry is shown whole', (await page.locator('dialog').innerText()).includes(entries[0].hash));
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  const link = await page.getByRole('link', { name: 'CSV' }).getAttribute('href');
  const file = await page.evaluate(async (address) => { const got = await fetch(address); return [got.status, got.headers.get('content-disposition')?.includes('.csv')]; }, link);
  check('the log can be taken along', file, [200, true]);
  check('a node alone is not named', await page.locator('th').getByText('Node', { exact: true }).count(), 0);
  await page.route('**/api/v1/audit?*', async (route) => {
    const response = await route.fetch();
    const told = await response.json();
    told.entries[0].node = 'another-node';
    await route.fulfill({ response, json: { ...told, complete: false } });
  });
  await page.getByRole('button', { name: 'Search' }).click();
  await page.locator('#partial').waitFor();
  check('of several nodes each is named', await page.locator('tbody tr').first().getByText('another-node').count(), 1);
  await page.unroute('**/api/v1/audit?*');
  await page.getByRole('button', { name: 'Checkpoint' }).click();
  await page.locator('dialog').getByText('Newest entry').waitFor();
  await closeDialog(page);
}

async function policies({ gateway, check }, page) {
  await page.visit('/ui/policies');
  const before = (await gateway.ask('GET', '/api/v1/policies')).revision;
  check('the live revision is named', await page.locator('#live-revision').innerText(), `revision ${before}`);
  await page.getByRole('button', { name: 'Edit policy monitor' }).click();
  const text = page.locator('[name=definition]');
  const definition = JSON.parse(await text.inputValue());
  await text.fill('{');
  await page.locator('#check').click();
  await page.locator('#outcome [role=alert]').getByText('not valid JSON').waitFor();
  await text.fill(JSON.stringify({ ...definition, fail_mode: 'maybe' }));
  await page.locator('#check').click();
  await page.locator('#outcome [role=alert]').getByText('fail_mode').waitFor();
  page.excuse(/400 \(/);
  await text.fill(JSON.stringify({ ...definition, description: 'Changed in a browser.' }, null, 2));
  await page.locator('#check').click();
  await page.locator('#outcome').getByText('It is sound').waitFor();
  check('a check shows what differs', [await page.locator('#outcome .added').count(), await page.locator('#outcome .removed').count()], [1, 1]);
  check('and changes nothing', (await gateway.ask('GET', '/api/v1/policies')).revision, before);
  await page.getByRole('button', { name: 'Put in force' }).click();
  await sent(page);
  await page.getByText('Changed in a browser.').waitFor();
  check('what is put in force is a revision', (await gateway.ask('GET', '/api/v1/policies/monitor')).description, 'Changed in a browser.');
  await page.getByRole('button', { name: 'Revisions' }).click();
  await page.getByRole('button', { name: `Go back to revision ${before}` }).click();
  await page.locator('dialog').getByRole('button', { name: 'Go back' }).click();
  await sent(page);
  check('and there is a way back', (await gateway.ask('GET', '/api/v1/policies/monitor')).description, definition.description);
}

async function routes({ gateway, check }, page) {
  await page.visit('/ui/policies');
  await page.getByRole('button', { name: 'Routes', exact: true }).click();
  const before = (await gateway.ask('GET', '/api/v1/config')).routes;
  const row = page.locator('tbody tr').filter({ hasText: before[0].name });
  await row.getByText(before[0].upstream).waitFor();
  check('a route is told with its path, its provider and its policy', [await row.getByText(before[0].path_prefix, { exact: true }).count(), await row.getByText(before[0].upstream).count(), await row.getByText(before[0].policy, { exact: true }).count()], [1, 1, 1]);
  await page.locator('#edit-routes').click();
  const text = page.locator('[name=routes]');
  check('what is edited is what is in force', JSON.parse(await text.inputValue()), before);
  await text.fill(JSON.stringify([{ ...before[0], policy: 'nobody' }]));
  await page.locator('#check').click();
  await page.locator('#outcome [role=alert]').getByText('there is no such policy').waitFor();
  page.excuse(/400 \(/);
  await text.fill(JSON.stringify([...before, { ...before[0], name: 'second', path_prefix: '/second' }], null, 2));
  await page.locator('#check').click();
  await page.locator('#outcome').getByText('It is sound').waitFor();
  check('a check of routes changes nothing', (await gateway.ask('GET', '/api/v1/config')).routes, before);
  await page.getByRole('button', { name: 'Put in force' }).click();
  await sent(page);
  await page.locator('tbody tr').filter({ hasText: 'second' }).first().waitFor();
  check('a route is added', (await gateway.ask('GET', '/api/v1/config')).routes.map((route) => route.name), [...before.map((route) => route.name), 'second']);
  await gateway.ask('PUT', '/api/v1/config', { routes: before });
}

async function keys({ gateway, check }, page) {
  await page.visit('/ui/keys');
  await page.locator('#new-key').click();
  await page.locator('dialog [name=name]').fill('made in a browser');
  await page.locator('dialog [name=role]').selectOption('analyst');
  await page.locator('dialog [name=tokens_per_day]').fill('1000');
  await page.getByRole('button', { name: 'Make the key' }).click();
  const secret = await page.locator('dialog input[readonly]').inputValue();
  check('a key is shown once, and counts', (await gateway.ask('GET', '/api/v1/auth/whoami', undefined, secret)).name, 'made in a browser');
  await closeDialog(page);
  const row = page.locator('tr', { hasText: 'made in a browser' });
  check('afterwards it is nowhere', (await page.content()).includes(secret), false);
  await row.getByRole('button', { name: /^Rotate/ }).click();
  await page.locator('[name=overlap]').selectOption('0');
  await page.locator('dialog').getByRole('button', { name: 'Rotate' }).click();
  await page.locator('dialog input[readonly]').waitFor();
  const next = await page.locator('dialog input[readonly]').inputValue();
  check('a rotated key has another text', [next === secret, await gateway.ask('GET', '/api/v1/auth/whoami', undefined, secret).catch(() => 'refused')], [false, 'refused']);
  await closeDialog(page);
  await row.getByRole('button', { name: /^Revoke/ }).click();
  await page.locator('dialog').getByRole('button', { name: 'Revoke' }).click();
  await sent(page);
  await row.waitFor({ state: 'detached' });
  check('a revoked one opens nothing', await gateway.ask('GET', '/api/v1/auth/whoami', undefined, next).catch(() => 'refused'), 'refused');
}

async function privacy({ gateway, check }, page) {
  await page.visit('/ui/privacy');
  await page.locator('#subject [name=entity]').fill('bob@people.example');
  await page.locator('#dsar-erase').click();
  await page.locator('[name=again]').fill('bob@people.example');
  await page.locator('dialog').getByRole('button', { name: 'Erase' }).click();
  await page.locator('dialog [role=alert]').getByText('a legal hold forbids it').waitFor();
  page.excuse(/409 \(/);
  await closeDialog(page);
  const held = page.locator('tr', { hasText: 'bob@people.example' });
  await held.getByRole('button', { name: /^Release/ }).click();
  await page.locator('dialog').getByRole('button', { name: 'Release' }).click();
  await sent(page);
  await held.getByText('released', { exact: true }).waitFor();
  check('a hold is released, and stays on record', (await gateway.ask('GET', '/api/v1/legal-holds')).map((hold) => hold.status), ['active', 'released']);
  await page.locator('#dsar-erase').click();
  await page.locator('[name=again]').fill('bob@people.example');
  await page.locator('dialog').getByRole('button', { name: 'Erase' }).click();
  await sent(page);
  await page.locator('#subject').getByText(/^Erased: \d+ records/).waitFor();
  await page.locator('#new-hold').click();
  for (const [name, value] of [['entity_id', 'carol'], ['entity_type', 'user'], ['issued_by', 'legal@people.example'], ['reason', 'Case 13']]) await page.locator(`dialog [name=${name}]`).fill(value);
  await page.getByRole('button', { name: 'Take the hold' }).click();
  await sent(page);
  check('a hold that is taken holds', await gateway.ask('GET', '/api/v1/legal-holds/check/carol'), { under_hold: true });
}

export async function changes(world, page) {
  await audit(world, page);
  await policies(world, page);
  await routes(world, page);
  await keys(world, page);
  await privacy(world, page);
}

export async function access({ gateway, made, check }, page) {
  await page.visit('/ui/abtests');
  const [first, second] = await gateway.ask('GET', `/api/v1/abtest/tests/${made.test.id}/metrics`);
  const rows = await page.locator('tbody tr').evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.innerText)));
  check('variants have their figures', rows.map((row) => [row[3], row[4]].map(Number)), [first, second].map((one) => [one.detections, one.false_positives]));
  check('and whether the difference is real', rows[1][7].startsWith(second.significance.is_significant ? 'real' : 'not proven'));
  await page.visit('/ui/compliance?framework=soc2');
  const report = await gateway.ask('GET', '/api/v1/compliance?framework=soc2');
  await page.locator('#report tbody tr').first().waitFor();
  check('every control is there', await page.locator('#report tbody tr').count(), report.controls.length);
  await page.locator('#report [name=status]').selectOption('fail');
  check('and can be told apart', await page.locator('#report tbody tr').count(), report.summary.fail ?? 0);
  await page.visit('/ui/detectors');
  check('every detector is known', await figure(page, 'all'), (await gateway.ask('GET', '/api/v1/detectors')).total);
  await page.locator('[name=text]').fill('aws_access_key_id');
  await page.locator('tbody tr', { hasText: 'aws_access_key_id' }).first().getByRole('button').click();
  await page.locator('dialog').getByText('AKIA').first().waitFor();
  await closeDialog(page);
  await page.visit('/ui/screen');
  await page.locator('textarea').fill(`my card is ${['4111', '1111', '1111', '1111'].join(' ')}`);
  await page.getByRole('button', { name: 'Screen' }).click();
  await page.locator('[data-figure=action]').getByText('redact', { exact: true }).waitFor();
  check('a text that is tried is judged', await figure(page, 'threats') >= 1);
  // The gateway goes on writing entries of its own meanwhile.
  const entries = async () => (await gateway.ask('GET', '/api/v1/persistence')).entry_count;
  const least = await entries();
  await page.visit('/ui/system');
  const shown = number(await page.locator('#entry-count').innerText());
  check('the state is that of the API', least <= shown && shown <= await entries());
  await page.visit('/ui/license');
  check('so is the tier', await page.locator('#license-tier').innerText(), (await gateway.ask('GET', '/api/v1/license/status')).tier);
  await page.visit('/ui/trust');
  check('so are the agents', await figure(page, 'agents'), (await gateway.ask('GET', '/api/v1/guardrails')).agents.length);
}

export async function reference({ gateway, check }, page) {
  await page.visit('/docs');
  const { paths } = await gateway.ask('GET', '/openapi.json');
  const operations = Object.values(paths).reduce((sum, item) => sum + Object.keys(item).length, 0);
  check('every operation is in the reference', await page.locator('.operation').count(), operations);
  await page.getByRole('searchbox').fill('/api/v1/legal-holds');
  const post = page.locator('.operation', { hasText: 'Takes a legal hold' });
  await post.locator('summary').first().click();
  await post.getByText('curl -s').first().waitFor();
  const text = await post.innerText();
  check('with bodies, answers and an example', ['entity_id', 'issued_by', '201', '409', 'curl -s'].map((word) => text.includes(word)), [true, true, true, true, true]);
}

const SEEN = {
  operator: ['Overview', 'Try a text', 'Holds and privacy', 'Policies', 'Detectors', 'A/B tests', 'API keys', 'Agents and trust', 'System', 'Licence and SLA', 'API reference'],
  auditor: ['Overview', 'Live', 'Usage and cost', 'Audit log', 'Compliance', 'Holds and privacy', 'Forwarding', 'Agents and trust', 'System', 'Licence and SLA', 'API reference'],
  analyst: ['Overview', 'Usage and cost', 'Try a text', 'System', 'Licence and SLA', 'API reference'],
  service: ['Try a text', 'API reference'],
};
const ADDRESSES = ['live', 'usage', 'screen', 'audit', 'compliance', 'privacy', 'siem', 'policies', 'detectors', 'abtests', 'keys', 'people', 'trust', 'system', 'license'];

// Each role sees its pages, all of which it can fill, and no other.
export async function roles({ made, open, check }) {
  for (const [role, titles] of Object.entries(SEEN)) {
    const page = await open();
    await page.signIn(made[role].key);
    const links = await page.locator('#menu a').evaluateAll((all) => all.map((link) => [link.textContent.trim(), link.getAttribute('href')]));
    check(`${role} sees its pages`, links.map(([title]) => title), titles);
    page.excuse(/403 \(/);
    for (const [title, address] of links) {
      await page.visit(address);
      check(`${role} can fill ${title}`, [await page.locator('main [role=alert]').allInnerTexts(), page.complaints], [[], []]);
    }
    const hidden = ADDRESSES.map((name) => `/ui/${name}`).filter((address) => !links.some(([, known]) => known === address));
    const answers = await page.evaluate((all) => Promise.all(all.map(async (address) => (await fetch(address)).status)), hidden);
    check(`${role} is refused the others`, [...new Set(answers)].every((status) => status === 403), true);
    check(`${role} may not by itself either`, await page.evaluate(async () => [(await fetch('/api/v1/users')).status, (await fetch('/api/v1/keys', { method: 'POST', body: '{"name":"x","role":"admin"}' })).status]), [403, 403]);
    await page.context().close();
  }
  await person(open, check);
}

// A local user, with the keyboard alone, on a narrow screen.
async function person(open, check) {
  const page = await open({ viewport: { width: 360, height: 740 } });
  await page.goto(`${page.base}/ui/audit?severity=high`);
  check('whoever has not signed in is led there', new URL(page.url()).pathname, '/login');
  await page.locator('[name=username]').fill('ada');
  await page.locator('[name=password]').fill('correct horse battery');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/ui/audit?severity=high');
  await page.waitForSelector('#page:not([aria-busy])');
  check('and comes to where it was going, by password', [await page.locator('#role').innerText(), await page.locator('[name=severity]').inputValue()], ['auditor', 'high']);
  await page.keyboard.press('Tab');
  check('the first stop is past the menu', await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
  await page.keyboard.press('Enter');
  check('to the content', await page.evaluate(() => location.hash), '#main');
  check('the menu is put away', await page.locator('#menu').isVisible(), false);
  await page.locator('#menu-button').focus();
  await page.keyboard.press('Enter');
  check('and comes', [await page.locator('#menu').isVisible(), await page.locator('#menu-button').getAttribute('aria-expanded')], [true, 'true']);
  await page.keyboard.press('Escape');
  check('and goes', await page.locator('#menu').isVisible(), false);
  check('without a complaint', page.complaints, []);
  await page.context().close();
}
