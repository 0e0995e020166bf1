// The official MCP SDK for Node through the gateway, whose built-in policy must be in force.
//
// Usage: CLIENTS_NODE=DIR node agents.mjs BASE_URL, where DIR holds node_modules and BASE_URL/mcp leads
// to the tools of peers.py.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const require = createRequire(`${process.env.CLIENTS_NODE}/`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport, StreamableHTTPError } =
  require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { McpError } = require("@modelcontextprotocol/sdk/types.js");

const BASE = process.argv[2].replace(/\/$/, "");
const PLAIN = "The harbour opens at nine, Grüße!";
const REFUSED = -32050;

async function withTools(talk) {
  const client = new Client({ name: "tests", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${BASE}/mcp`)));
  try {
    return await talk(client);
  } finally {
    await client.close();
  }
}

const read = (name) => withTools((client) => client.callTool({ name: "read_note", arguments: { name } }));

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
