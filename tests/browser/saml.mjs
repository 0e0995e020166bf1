// npm's `samlp` as a SAML 2.0 identity provider over TLS, for as long as standard input is open. Writes its metadata to
// FOLDER/idp.xml, then prints where it is. Requests have to be signed with the key of the gateway's own metadata.
//
//   node saml.mjs CERTIFICATE KEY FOLDER GATEWAY
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import samlp from 'samlp';

const [certificate, tlsKey, folder, gateway] = process.argv.slice(2);
const at = (name) => `${folder}/${name}`;
execFileSync('openssl', [
  'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=idp', '-days', '2',
  '-keyout', at('idp.key'), '-out', at('idp.pem'),
], { stdio: 'ignore' });
const own = { issuer: 'urn:people.example', cert: readFileSync(at('idp.pem')), key: readFileSync(at('idp.key')) };
const groups = { ada: ['gate-admins', 'staff'], eve: ['<img src=x onerror=alert(1)>'] };
const sessions = new Map();

const asText = (url) => new Promise((resolve, reject) => {
  https.get(url, { rejectUnauthorized: false }, (answer) => {
    let text = '';
    answer.on('data', (piece) => { text += piece; }).on('end', () => resolve(text));
  }).on('error', reject);
});
const asPem = (metadata) => {
  const [, body] = /X509Certificate>([^<]+)</.exec(metadata);
  return `-----BEGIN CERTIFICATE-----\n${body.match(/.{1,64}/g).join('\n')}\n-----END CERTIFICATE-----\n`;
};

// What the package wants to know of a user.
function Profile(user) { this.user = user; }
Profile.prototype.getClaims = function () {
  return { email: `${this.user.id}@people.example`, groups: groups[this.user.id] ?? [] };
};
Profile.prototype.getNameIdentifier = function () { return { nameIdentifier: this.user.id }; };
Profile.prototype.metadata = [];
function profileMapper(user) { return new Profile(user); }
profileMapper.prototype.metadata = [];

const page = (body) => `<!doctype html><title>IdP</title>${body}`;
const form = (query) => page(`<form method=post action="/in${query}"><input name=user><button>Sign in</button></form>`);

async function serve(request, response, body) {
  const url = new URL(request.url, `https://${request.headers.host}`);
  const known = /sid=([^;]+)/.exec(request.headers.cookie ?? '')?.[1];
  const session = sessions.get(known) ?? { participants: [] };
  const req = {
    method: request.method === 'POST' && url.pathname === '/in' ? 'GET' : request.method,
    query: Object.fromEntries(url.searchParams), body: {}, headers: request.headers, session, originalUrl: request.url,
    protocol: 'https', url: request.url, user: session.user,
  };
  const res = {
    set: (name, value) => response.setHeader(name, value),
    send: (first) => (typeof first === 'number' ? response.writeHead(first).end('over') : response.end(first)),
    redirect: (place) => response.writeHead(302, { location: place }).end(),
  };
  const next = (fault) => response.writeHead(500).end(String(fault?.message ?? fault));
  const gate = asPem(await asText(`${gateway}/auth/saml/metadata`));
  if (url.pathname === '/in') {
    if (request.method === 'POST') {
      const id = randomUUID();
      session.user = { id: new URLSearchParams(body).get('user'), index: randomUUID() };
      sessions.set(id, session);
      response.setHeader('set-cookie', `sid=${id}; Path=/; HttpOnly; Secure; SameSite=None`);
      req.user = session.user;
    }
    if (!session.user) return response.setHeader('content-type', 'text/html').end(form(url.search));
    session.participants = [{
      serviceProviderId: `${gateway}/auth/saml/metadata`, nameId: session.user.id, sessionIndex: session.user.index,
      serviceProviderLogoutURL: `${gateway}/auth/saml/logout`, cert: gate,
      nameIdFormat: 'urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified',
    }];
    return samlp.auth({
      ...own, profileMapper, signingCert: gate, sessionIndex: session.user.index, lifetimeInSeconds: 300,
      destination: `${gateway}/auth/callback`, recipient: `${gateway}/auth/callback`,
      RelayState: req.query.RelayState, getPostURL: (audience, dom, asked, done) => done(null, `${gateway}/auth/callback`),
    })(req, res, next);
  }
  if (url.pathname === '/out') {
    const { default: Participants } = await import('samlp/lib/sessionParticipants/index.js');
    return samlp.logout({
      ...own, deflate: true, protocolBinding: 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect',
      sessionParticipants: new Participants(session.participants), destination: `${gateway}/auth/saml/logout`,
      clearIdPSession: (done) => { sessions.delete(known); done(); },
    })(req, res, next);
  }
  return response.writeHead(404).end();
}

const server = https.createServer(
  { cert: readFileSync(certificate), key: readFileSync(tlsKey) },
  (request, response) => {
    let body = '';
    request.on('data', (piece) => { body += piece; }).on('end', () => {
      serve(request, response, body).catch((fault) => response.writeHead(500).end(String(fault)));
    });
  },
);
server.listen(0, '127.0.0.1', () => {
  const host = `localhost:${server.address().port}`;
  const describe = samlp.metadata({
    ...own, profileMapper, redirectEndpointPath: '/in', postEndpointPath: '/in', logoutEndpointPaths: { redirect: '/out' },
  });
  describe(
    { headers: { host }, protocol: 'https', originalUrl: '/' },
    { set: () => {}, send: (text) => writeFileSync(at('idp.xml'), text) },
  );
  console.log(`https://${host}`);
});
process.stdin.resume().on('end', () => process.exit(0));
