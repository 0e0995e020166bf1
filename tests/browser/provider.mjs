// npm's `oidc-provider` over TLS, for as long as standard input is open. Prints where it is.
//
//   node provider.mjs CERTIFICATE KEY CLIENT_SECRET GATEWAY
import { readFileSync } from 'node:fs';
import https from 'node:https';
import { Provider } from 'oidc-provider';

const [certificate, key, secret, gateway] = process.argv.slice(2);
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
let answer = (request, response) => response.writeHead(503).end();
const server = https.createServer(
  { cert: readFileSync(certificate), key: readFileSync(key) },
  (request, response) => answer(request, response),
);
server.listen(0, '127.0.0.1', () => {
  const issuer = `https://localhost:${server.address().port}`;
  const groups = { ada: ['gate-admins', 'staff'], bob: ['staff'], eve: ['<img src=x onerror=alert(1)>'] };
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'gate',
        client_secret: secret,
        redirect_uris: [`${gateway}/auth/callback`],
        post_logout_redirect_uris: [`${gateway}/login`],
        backchannel_logout_uri: `${gateway}/auth/backchannel-logout`,
        backchannel_logout_session_required: true,
      },
    ],
    pkce: { required: () => true },
    // The package refuses to call this machine, which is where the gateway is, behind a certificate of the test's own.
    fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined, signal: AbortSignal.timeout(30000) }),
    features: { devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true }, backchannelLogout: { enabled: true } },
    claims: { openid: ['sub'], email: ['email'], profile: ['name', 'groups'] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, name: id, email: `${id}@people.example`, groups: groups[id] }),
    }),
  });
  answer = provider.callback();
  console.log(issuer);
});
process.stdin.resume().on('end', () => process.exit(0));
