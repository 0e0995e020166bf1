// The official A2A and MCP SDKs for Node through the gateway, whose built-in policy must be in force.
//
// Usage: CLIENTS_NODE=DIR node agents.mjs BASE_URL GUARDED_URL DIRECTORY, where DIR holds node_modules. BASE_URL/a2a
// leads to the agent and BASE_URL/mcp to the tools of peers.py, GUARDED_URL/agents and GUARDED_URL/tools to both by
// routes for agents; the directory holds what these take, as in agents.py.
import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import https from "node:https";
import { createRequire } from "node:module";
import { Readable } from "node:stream";

const require = createRequire(`${process.env.CLIENTS_NODE}/`);
const { AgentCard, SendMessageRequest } = require("@a2a-js/sdk");
const { ClientFactory, JsonRpcTransportFactory } = require("@a2a-js/sdk/client");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport, StreamableHTTPError } =
  require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { McpError } = require("@modelcontextprotocol/sdk/types.js");

const [BASE, GUARDED] = process.argv.slice(2, 4).map((url) => url.replace(/\/$/, ""));
const file = (name) => readFileSync(`${process.argv[4]}/${name}`);
const PLAIN = "The harbour opens at nine, Grüße!";
const REFUSED = -32050;

// All that an SDK needs to pass guardrails: a `fetch` that shows a certificate, names the agent and its capability,
// and signs each body.
function guarded(capability, withCertificate = true) {
  const identity = withCertificate ? { cert: file("planner.pem"), key: file("planner.key") } : {};
  return (url, init = {}) => new Promise((resolve, reject) => {
    const body = init.body ?? "";
    const headers = Object.fromEntries(new Headers(init.headers));
    headers["x-a2a-agent-id"] = "planner";
    headers["a2a-capability"] = capability;
    headers["a2a-signature"] = createHmac("sha256", file("planner.secret").toString().trim()).update(body).digest("base64");
    const options = { method: init.method, headers, ca: file("cert.pem"), signal: init.signal, ...identity };
    const request = https.request(url, options, (answer) => {
      const isBare = [204, 205, 304].includes(answer.statusCode);
      resolve(new Response(isBare ? null : Readable.toWeb(answer), {
        status: answer.statusCode,
        headers: Object.entries(answer.headers).map(([name, value]) => [name, String(value)]),
      }));
    });
    request.on("error", reject);
    request.end(body);
  });
}

async function withTools(talk, url = `${BASE}/mcp`, options = {}) {
  const client = new Client({ name: "tests", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), options));
  try {
    return await talk(client);
  } finally {
    await client.close();
  }
}

const call = (name) => (client) => client.callTool({ name: "read_note", arguments: { name } });
const read = (name) => withTools(call(name));

async function ask(text, streams, url = `${BASE}/a2a/`, fetchImpl = fetch) {
  const card = AgentCard.fromJSON({
    name: "Clerk", version: "1", capabilities: { streaming: streams },
    supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
  });
  const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] });
  const client = await factory.createFromAgentCard(card);
  const message = { messageId: randomUUID(), role: "ROLE_USER", parts: [{ text }] };
  const request = SendMessageRequest.fromJSON({ message });
  const said = [];
  if (streams) {
    for await (const event of client.sendMessageStream(request)) said.push(event);
  } else {
    said.push(await client.sendMessage(request));
  }
  return JSON.stringify(said);
}

async function silenced(saying) {
  const error = await saying.then((said) => assert.fail(`it said ${said}`), (error) => error);
  assert.ok(!(error instanceof assert.AssertionError), error.message);
  assert.ok(/403|-32050|blocked/.test(`${error.message} ${error.code}`), `another error: ${error.stack}`);
  assert.ok(!error.message.includes("ghp_"), "the error repeats the secret");
}

async function refused(name) {
  const error = await read(name).then((result) => assert.fail(`it said ${JSON.stringify(result)}`), (error) => error);
  const isOfTheSdk = error instanceof McpError || error instanceof StreamableHTTPError;
  assert.ok(isOfTheSdk, `another kind of error: ${error.stack}`);
  assert.ok(error.code === REFUSED || error.code === 403, `another code: ${error.code}`);
  assert.ok(!error.message.includes("ghp_"), "the error repeats the secret");
}

const tests = {
  async tools_are_listed_and_called() {
    const names = await withTools(async (client) => (await client.listTools()).tools.map((tool) => tool.name));
    assert.deepEqual(names, ["read_note"]);
    assert.equal((await read("plain")).content[0].text, PLAIN);
  },
  async a_secret_from_a_tool_raises() { await refused("leak"); },
  async orders_in_a_result_raise() { await refused("orders"); },
  async agents_talk() {
    for (const streams of [false, true]) assert.ok((await ask("plain", streams)).includes(PLAIN));
  },
  async what_an_agent_must_not_say_raises() {
    for (const streams of [false, true]) {
      for (const text of ["leak", "orders"]) await silenced(ask(text, streams));
    }
  },
  async guardrails_let_signed_calls_of_both_sdks_pass() {
    for (const streams of [false, true]) {
      assert.ok((await ask("plain", streams, `${GUARDED}/agents/`, guarded("ask"))).includes(PLAIN));
    }
    const options = { fetch: guarded("ask") };
    const told = await withTools(call("plain"), `${GUARDED}/tools/mcp`, options);
    assert.equal(told.content[0].text, PLAIN);
  },
  async guardrails_refuse_what_was_not_granted() {
    for (const refusing of [guarded("fly"), guarded("ask", false)]) {
      await silenced(ask("plain", false, `${GUARDED}/agents/`, refusing));
      const asked = withTools(call("plain"), `${GUARDED}/tools/mcp`, { fetch: refusing });
      const error = await asked.then((said) => assert.fail(`it said ${JSON.stringify(said)}`), (error) => error);
      assert.equal(error.code, 403, error.stack);
    }
  },
  async guardrails_read_what_passes() {
    await silenced(ask("leak", false, `${GUARDED}/agents/`, guarded("ask")));
    const asked = withTools(call("leak"), `${GUARDED}/tools/mcp`, { fetch: guarded("ask") });
    const error = await asked.then((said) => assert.fail(`it said ${JSON.stringify(said)}`), (error) => error);
    assert.ok(error.code === REFUSED || error.code === 403, `another code: ${error.code}`);
  },
};

let passed = 0, failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    passed += 1;
  } catch (error) {
    failed += 1;
    console.error(`FAIL ${name}\n${error.stack}`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
