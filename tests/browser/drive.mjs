// Drives Chromium through a sign-in at a real identity provider, to the gateway's own page and out again.
//
//   node drive.mjs GATEWAY npm|pypi|saml
//
// Prints one line a check; the exit code says whether all came true.
import { chromium } from 'playwright-core';

const [gateway, kind] = process.argv.slice(2);
const failures = [];
const check = (name, found, wanted) => {
  const good = JSON.stringify(found) === JSON.stringify(wanted);
  console.log(`${good ? 'ok  ' : 'FAIL'} ${name}${good ? '' : `: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`}`);
  if (!good) failures.push(name);
};

const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const fresh = async () => {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  context.setDefaultTimeout(30000);
  const page = await context.newPage();
  page.complaints = [];
  page.on('dialog', (dialog) => { page.complaints.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  page.on('console', (message) => {
    // What the providers' own pages say is theirs.
    const ours = message.location().url.startsWith(gateway) || message.location().url === '';
    if (message.type() === 'error' && ours && /Content Security Policy|CSP/.test(message.text())) page.complaints.push(message.text());
  });
  return page;
};

let provider;
// What a person does at the provider: the npm one asks for name and password, then for consent.
const signInAs = {
  npm: async (page, user) => {
    await page.locator('input[name=login]').fill(user);
    await page.locator('input[name=password]').fill('any');
    await page.locator('button[type=submit]').click();
    await page.getByRole('button', { name: 'Continue' }).click();
  },
  pypi: async (page, user) => {
    await page.locator('input[name=sub]').fill(user);
    await page.getByRole('button', { name: 'Authorize' }).click();
  },
  saml: async (page, user) => {
    await page.locator('input[name=user]').fill(user);
    provider = new URL(page.url()).origin;
    await page.getByRole('button', { name: 'Sign in' }).click();
  },
}[kind];
const role = { npm: 'admin', pypi: 'auditor', saml: 'admin' }[kind];

const page = await fresh();
await page.goto(`${gateway}/`);
check('whoever has not signed in is led to where that is done', new URL(page.url()).pathname, '/login');
await page.goto(`${gateway}/login?next=${encodeURIComponent('/openapi.json')}`);
await page.locator('#sso').click();
await signInAs(page, 'ada');
await page.waitForURL(`${gateway}/openapi.json`);
check('the sign-in ends where it was going', page.url(), `${gateway}/openapi.json`);
await page.goto(`${gateway}/`);
check('the page says who it is', await page.locator('#who').textContent(), 'ada@people.example');
check('the page says which role', await page.locator('#role').textContent(), role);

const cookies = await page.context().cookies(gateway);
const session = cookies.filter((cookie) => cookie.name === '__Host-portcullis-session');
const { httpOnly, secure, sameSite, path, domain } = session[0] ?? {};
check('one session cookie', session.length, 1);
check('which is out of reach', [httpOnly, secure, sameSite, path, domain], [true, true, 'Lax', '/', 'localhost']);
check('and of the sign-in nothing is left', cookies.filter((cookie) => /login|saml/.test(cookie.name)).length, 0);
check('scripts see no cookie', await page.evaluate(() => document.cookie), '');
check('inline scripts do not run', await page.evaluate(() => {
  const script = document.createElement('script');
  // Where texts may not become scripts, setting it as a text would already fail.
  script.append('window.ran = true');
  document.body.append(script);
  return window.ran === true;
}), false);
page.complaints.length = 0;

const status = (call) => page.evaluate(async ([path, method]) => (await fetch(path, { method, body: method === 'POST' ? '{"content":"x"}' : undefined })).status, call);
check('the session reads what the role may read', await status(['/api/v1/audit', 'GET']), 200);
check('and no more', await status(['/api/v1/sessions', 'GET']), role === 'admin' ? 200 : 403);
check('and changes what the role may change', await status(['/v1/scan', 'POST']), role === 'admin' ? 200 : 403);

// A page of another origin, in the same browser, with the same cookies.
const foreign = await page.context().newPage();
await foreign.route('https://elsewhere.example/**', (route) => route.fulfill({ contentType: 'text/html', body: '<a id=out href>x</a>' }));
await foreign.goto('https://elsewhere.example/');
await foreign.evaluate((gateway) => {
  const form = document.createElement('form');
  Object.assign(form, { method: 'post', action: `${gateway}/auth/logout` });
  document.body.append(form);
  form.submit();
}, gateway);
await foreign.waitForURL(`${gateway}/**`);
check('a form elsewhere signs nobody out', await status(['/api/v1/audit', 'GET']), 200);
await foreign.goto('https://elsewhere.example/');
await foreign.evaluate((gateway) => { document.querySelector('#out').href = `${gateway}/auth/logout`; }, gateway);
await foreign.locator('#out').click();
await foreign.locator('#confirm').waitFor();
check('nor does a link, which is asked about', await status(['/api/v1/audit', 'GET']), 200);
await foreign.close();

// The same person signs in once more: the provider remembers them, and the first session stays.
const before = session[0].value;
if (kind === 'npm') {
  await page.context().clearCookies({ name: '__Host-portcullis-session' });
  await page.goto(`${gateway}/auth/login`);
  await page.waitForURL(`${gateway}/`);
}
await page.locator('#sign-out').click();
if (kind === 'npm') {
  await page.locator('button[name=logout]').click();
  await page.waitForURL(`${gateway}/login`);
} else if (kind === 'saml') {
  await page.waitForURL(`${gateway}/login`);
} else {
  await page.waitForURL(/end_session/);
}
// The providers from npm lead back; the one from PyPI stays.
check('signing out leads to the provider', page.url().startsWith(`${gateway}/`), kind !== 'pypi');
await page.goto(`${gateway}/`);
check('and the session has ended', new URL(page.url()).pathname, '/login');
check('no page had anything blocked', page.complaints, []);
if (kind === 'npm') {
  // The provider told the gateway by itself: no browser of theirs brought the first session's cookie.
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const told = await context.request.get(`${gateway}/api/v1/audit`, { headers: { cookie: `__Host-portcullis-session=${before}` } });
  check('signing out at the provider ends the other session too', told.status(), 401);
}

if (kind === 'npm') {
  const stranger = await fresh();
  await stranger.goto(`${gateway}/auth/login`);
  await signInAs(stranger, 'eve');
  await stranger.waitForURL(`${gateway}/auth/callback?*`);
  check('who has no role here is told so', await stranger.locator('[role=alert]').textContent(), "None of the user's groups has a role here.");
  check('and nothing of theirs runs', stranger.complaints, []);
  // The answer that a provider gave once, brought again.
  const used = stranger.url();
  await stranger.goto(used);
  check('an answer counts once', /No sign-in is under way|completed already/.test(await stranger.locator('[role=alert]').textContent()), true);
  const again = await fresh();
  await again.goto(`${gateway}/auth/login`);
  await again.locator('a[href$="/abort"]').click();
  await again.waitForURL(`${gateway}/auth/callback?*`);
  check('who changes their mind is not signed in', await again.locator('[role=alert]').textContent(), 'The identity provider refused the sign-in.');
  // The confirmation page's own form leads on to the provider: its policy has to allow that.
  const last = await fresh();
  await last.goto(`${gateway}/auth/login`);
  await signInAs(last, 'ada');
  await last.waitForURL(`${gateway}/`);
  await last.goto(`${gateway}/auth/logout`);
  await last.locator('#confirm').click();
  await last.waitForURL(/\/session\/end/);
  check('signing out by the form leads to the provider too', last.complaints, []);
}

if (kind === 'saml') {
  const left = await page.request.get(`${provider}/out`, { maxRedirects: 0 });
  check('the provider knows that they left', left.status(), 200);
  const stranger = await fresh();
  await stranger.goto(`${gateway}/auth/login`);
  await signInAs(stranger, 'eve');
  await stranger.waitForURL(`${gateway}/auth/callback`);
  check('who has no role here is told so', await stranger.locator('[role=alert]').textContent(), "None of the user's groups has a role here.");
  check('and nothing of theirs runs', stranger.complaints, []);
  // Signing out at the provider ends the session here.
  const last = await fresh();
  await last.goto(`${gateway}/auth/login`);
  await signInAs(last, 'ada');
  await last.waitForURL(`${gateway}/`);
  await last.goto(`${provider}/out`);
  check('the provider ends all', await last.locator('body').textContent(), 'over');
  await last.goto(`${gateway}/`);
  check('and the session here has ended', new URL(last.url()).pathname, '/login');
  // The confirmation page's own form leads on to the provider: its policy has to allow that.
  await last.goto(`${gateway}/auth/login`);
  await signInAs(last, 'ada');
  await last.waitForURL(`${gateway}/`);
  await last.goto(`${gateway}/auth/logout`);
  await last.locator('#confirm').click();
  await last.waitForURL(`${gateway}/login`);
  check('signing out by the form leads there and back', last.complaints, []);
}

await browser.close();
process.exit(failures.length === 0 ? 0 : 1);
