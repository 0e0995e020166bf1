// The `ws` client against the gateway, with `realtime_peer.py` behind it, and compression offered, as `ws` does.
//
// Usage: realtime.mjs BASE_URL. CLIENTS_NODE names the directory with node_modules.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const { WebSocket } = createRequire(join(process.env.CLIENTS_NODE, "package.json"))("ws");
const base = process.argv[2].replace(/^http/, "ws").replace(/\/$/, "");
const card = "4111 1111 1111 1111";
// Half of a key's form: the other half is put to it when it is sent.
const key = "AKIA" + "Z7RQ3N5WLM2JX4KD";

function open() {
  const socket = new WebSocket(`${base}/v1/realtime?model=sample`, { headers: { authorization: "Bearer unused" } });
  const events = [];
  const closed = new Promise((resolve) => socket.on("close", (code, reason) => resolve({ code, reason: String(reason) })));
  socket.on("message", (data, isBinary) => events.push(isBinary ? data : JSON.parse(data)));
  return { socket, events, closed, opened: new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject)) };
}

async function until(condition, socket) {
  while (!condition()) await new Promise((resolve) => socket.once("message", resolve));
}

function ask(socket, text) {
  socket.send(JSON.stringify({ type: "conversation.item.create",
    item: { type: "message", role: "user", content: [{ type: "input_text", text }] } }));
  socket.send(JSON.stringify({ type: "response.create" }));
}

const tests = {
  async "texts pass, cards do not, and pings are answered"() {
    const { socket, events, opened, closed } = open();
    await opened;
    assert.equal(socket.extensions, "");
    const pong = new Promise((resolve) => socket.once("pong", resolve));
    socket.ping("still there");
    assert.equal(String(await pong), "still there");
    ask(socket, `card ${card} thanks`);
    await until(() => events.some((event) => event.type === "response.done"), socket);
    const said = events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta).join("");
    assert.match(said, /^card .+ thanks$/);
    assert.ok(!said.includes("4111"), said);
    socket.close(1000, "done");
    assert.deepEqual(await closed, { code: 1000, reason: "done" });
  },
  async "fragments are read as one message"() {
    const { socket, events, opened } = open();
    await opened;
    const text = JSON.stringify({ type: "session.update", session: { instructions: `card ${card} thanks` } });
    for (let at = 0; at < text.length; at += 10) {
      socket.send(text.slice(at, at + 10), { fin: at + 10 >= text.length, binary: false });
    }
    await until(() => events.some((event) => event.type === "session.updated"), socket);
    const { session } = events.find((event) => event.type === "session.updated");
    assert.ok(!session.instructions.includes("4111") && session.instructions.endsWith(" thanks"), session.instructions);
    socket.terminate();
  },
  async "a secret ends it, in a binary message too"() {
    for (const binary of [false, true]) {
      const { socket, events, opened, closed } = open();
      await opened;
      socket.send(Buffer.from(JSON.stringify({ type: "session.update", session: { instructions: key } })), { binary });
      assert.deepEqual(await closed, { code: 1008, reason: "content_blocked" });
      assert.equal(events.at(-1).error.code, "content_blocked");
    }
  },
};

let passed = 0, failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    passed += 1;
  } catch (error) {
    failed += 1;
    console.error(`FAIL ${name}`, error);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
