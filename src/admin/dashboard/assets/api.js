// The management API, asked with the session of the page.
const WAIT_MAX_S = 20;
const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

export class Refusal extends Error {
  constructor(status, told) {
    super(told?.error ?? told?.message ?? `the gateway answered ${status}`);
    this.status = status;
    this.told = told ?? {};
    this.details = this.told.faults ?? [];
  }
}

const granted = (document.body.dataset.may ?? '').split(' ');
// What the role may do. This only spares a page that would be refused: the API decides.
export const may = (...permissions) => granted.includes('*') || permissions.some((one) => granted.includes(one));
export const isAdmin = granted.includes('*');

export const path = (parts, ...values) => parts.reduce((whole, part, at) => whole + encodeURIComponent(values[at - 1]) + part);

export function query(parameters) {
  const given = Object.entries(parameters ?? {}).filter(([, value]) => value !== '' && value !== undefined && value !== null);
  const text = new URLSearchParams(given).toString();
  return text ? `?${text}` : '';
}

// A page that is being left for another leads nowhere itself: a sign-out at the provider ends the session while the
// browser is on its way through the gateway, and would end there. A download is no leaving, so that this is forgotten.
const LEAVING_MS = 15_000;
let leftAt = -Infinity;
addEventListener('beforeunload', () => { leftAt = performance.now(); });

export function signIn() {
  if (performance.now() - leftAt < LEAVING_MS) return;
  location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
}

async function answer(address, options) {
  let response;
  try {
    response = await fetch(address, { cache: 'no-store', credentials: 'same-origin', ...options });
  } catch {
    throw new Refusal(0, { error: 'the gateway cannot be reached' });
  }
  if (response.status === 401) signIn();
  return response;
}

async function read(response) {
  const text = await response.text();
  try { return JSON.parse(text); } catch { return { error: text.slice(0, 300) }; }
}

// Reads; a quota that is used up, or what cannot be told at the moment, is waited for, once, where that is not long.
export async function get(address, parameters) {
  const [told] = await tagged(address, parameters);
  return told;
}

// Reads, and returns with what was read its tag, by which a change tells that nothing came between.
export async function tagged(address, parameters) {
  const whole = address + query(parameters);
  let response = await answer(whole);
  const seconds = Number(response.headers.get('retry-after') ?? 'x');
  if ((response.status === 429 || response.status === 503) && seconds <= WAIT_MAX_S) {
    await pause(1000 * Math.max(1, seconds));
    response = await answer(whole);
  }
  const told = await read(response);
  if (!response.ok) throw new Refusal(response.status, told);
  return [told, response.headers.get('etag')];
}

// Reads what may be missing; a refusal is a value.
export const attempt = (address, parameters) => get(address, parameters).catch((error) => error);
export const isFault = (told) => told instanceof Error;

export async function send(method, address, body, headers) {
  const options = { method, headers: { 'content-type': 'application/json', ...headers } };
  if (body !== undefined) options.body = JSON.stringify(body);
  const response = await answer(address, options);
  const told = await read(response);
  if (!response.ok) throw new Refusal(response.status, told);
  return told;
}

// Every page of a health report tells more than its status.
export async function health() {
  const response = await answer('/api/v1/health');
  return read(response);
}

export function save(name, text, type = 'application/json') {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
