// Drives Chromium through the dashboard of a gateway that had real traffic, and holds what is shown against the API.
//
//   node dashboard.mjs GATEWAY PROXY KEY
//
// Prints one line a check; the exit code says whether all came true.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { access, changes, figures, live, reference, roles } from './checks.mjs';
import { Gateway, HOSTILE, seed } from './seed.mjs';

const [admin, proxy, key] = process.argv.slice(2);
const gateway = new Gateway(admin, proxy, key);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
// By hand, while the pages change: where their files are taken from in the place of those in the program.
const assets = process.env.DASHBOARD_ASSETS;

const failures = [];
export const check = (name, found, wanted = true) => {
  const good = JSON.stringify(found) === JSON.stringify(wanted);
  console.log(`${good ? 'ok  ' : 'FAIL'} ${name}${good ? '' : `: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`}`);
  if (!good) failures.push(name);
};

const made = await seed(gateway);
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });

// Opens a window of its own, in which everything that a browser complains of is gathered.
async function open(look = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...look });
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  page.complaints = [];
  page.base = admin;
  page.on('dialog', (dialog) => { page.complaints.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  page.on('pageerror', (error) => page.complaints.push(`error ${error.stack}`));
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) page.complaints.push(`${message.type()} ${message.text()} ${message.location().url}`); });
  page.on('request', (request) => { if (!request.url().startsWith(admin) && !request.url().startsWith('blob:')) page.complaints.push(`asked ${request.url()}`); });
  if (assets) {
    const types = { css: 'text/css', js: 'text/javascript', svg: 'image/svg+xml' };
    await page.route('**/assets/*/*', (route) => {
      const name = new URL(route.request().url()).pathname.split('/').at(-1);
      return route.fulfill({ body: readFileSync(`${assets}/${name}`), contentType: types[name.split('.').at(-1)] });
    });
  }
  // Whatever is refused on purpose is no complaint.
  page.excuse = (pattern) => { page.complaints = page.complaints.filter((text) => !pattern.test(text)); };
  page.visit = async (path) => {
    await page.goto(admin + path);
    await page.waitForSelector('#page:not([aria-busy])');
    await page.waitForFunction(() => !document.querySelector('.waiting'));
  };
  page.signIn = async (secret) => {
    await page.goto(`${admin}/login`);
    await page.locator('input[name=key]').fill(secret);
    await page.locator('form', { has: page.locator('input[name=key]') }).getByRole('button').click();
    await page.waitForURL(`${admin}/`);
  };
  return page;
}

const world = { gateway, made, open, check, HOSTILE };
const page = await open();
await page.signIn(key);
const pages = await page.locator('#menu a').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
check('an administrator sees every page', pages.length, 17);
await figures(world, page);
await live(world, page);
await changes(world, page);
await access(world, page);
await reference(world, page);
check('no page complained of anything', page.complaints, []);
await roles(world);
await hostile();
await everywhere();
await withoutScripts();
await browser.close();
process.exit(failures.length === 0 ? 0 : 1);

// Texts of others, everywhere a text can stand: as they came through the gateway, and then in every field of every answer.
async function hostile() {
  const acted = () => reader.evaluate(() => [document.title.includes('owned'), document.querySelectorAll('main img, main script, main iframe').length]);
  const reader = await open();
  await reader.signIn(key);
  for (const path of pages) {
    await reader.visit(path);
    check(`${path}: nothing of others acts`, await acted(), [false, 0]);
  }
  for (const [path, place] of [['/', 'main'], ['/ui/keys', 'main'], ['/ui/privacy', 'main'], ['/ui/abtests', 'main'], ['/ui/policies', 'main'], ['/ui/usage', 'main']]) {
    await reader.visit(path);
    check(`${path}: and it is shown as it is`, (await reader.locator(place).innerText()).includes(HOSTILE));
  }
  check('and the browser has nothing to say', reader.complaints, []);
  const poison = (value, name) => {
    if (Array.isArray(value)) return value.map((one) => poison(one, name));
    if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, poison(one, key)]));
    return typeof value === 'string' && !/_at$|^timestamp$|^hour$|^day$|^period_|^currency$|^cursor$/.test(name) ? `${HOSTILE}<svg onload=alert(1)>javascript:alert(1)` : value;
  };
  await reader.route((address) => address.pathname.startsWith('/api/') && !address.pathname.endsWith('/stream'), async (route) => {
    const answer = await route.fetch();
    const told = await answer.json();
    await route.fulfill({ response: answer, json: poison(told, '') });
  });
  for (const path of pages.filter((one) => one !== '/docs')) {
    await reader.visit(path);
    check(`${path}: nor when every field of every answer is theirs`, await acted(), [false, 0]);
    const button = reader.locator('main').getByRole('button', { name: /^Details/ }).first();
    if (await button.count()) { await button.click(); await reader.waitForSelector('dialog'); }
    check(`${path}: nor in what opens`, [await acted(), await reader.locator('dialog img').count()], [[false, 0], 0]);
  }
  check('nothing of it ran, nor was anything blocked from running', reader.complaints.filter((text) => /dialog|Content Security|Trusted|asked/.test(text)), []);
  await reader.context().close();
}

// Every page, light and dark, narrow and wide: nobody is kept out, and nothing sticks out.
async function everywhere() {
  for (const [scheme, width] of [['light', 1280], ['dark', 360], ['dark', 1920]]) {
    const reader = await open({ colorScheme: scheme, viewport: { width, height: 900 }, reducedMotion: 'reduce' });
    await reader.goto(`${admin}/login`);
    await accessible(reader, `/login, ${scheme}, ${width}`);
    await reader.signIn(key);
    for (const path of pages) {
      await reader.visit(path);
      const over = await reader.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      check(`${path}, ${width}: nothing sticks out`, over, 0);
      if (width !== 1920) await accessible(reader, `${path}, ${scheme}, ${width}`);
    }
    check(`no complaint, ${scheme}, ${width}`, reader.complaints, []);
    await reader.context().close();
  }
}

async function accessible(reader, name) {
  // Not as a script of the page, which its policy forbids.
  await reader.evaluate(axe);
  const found = await reader.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    return violations.filter(({ impact }) => ['serious', 'critical'].includes(impact)).map(({ id, nodes }) => [id, nodes.slice(0, 3).map((node) => node.html.slice(0, 160))]);
  }).catch((error) => [String(error)]);
  check(`${name}: axe finds nothing serious`, found, []);
}

// What the server makes is a page of its own: everything that is told is there.
async function withoutScripts() {
  const page = await open({ javaScriptEnabled: false });
  await page.signIn(key);
  for (const address of pages) {
    await page.goto(admin + address);
    const told = await page.locator('#page section').count();
    check(`${address} tells without scripts`, told > 0, !['/ui/screen', '/docs'].includes(address));
  }
  await page.goto(`${admin}/ui/keys`);
  const names = await page.locator('#page td[data-label=Name]').allTextContents();
  const { keys } = await gateway.ask('GET', '/api/v1/keys');
  check('the keys are those of the API', names.sort(), keys.map((one) => one.name).sort());
  check('nothing was complained of without scripts', page.complaints, []);
}
