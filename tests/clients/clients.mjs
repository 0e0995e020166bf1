// Official Node clients against the gateway (or, with --direct, the sample provider itself).
//
// Usage: CLIENTS_NODE=DIR node clients.mjs BASE_URL [--direct], where DIR holds node_modules. The
// gateway's policy must block secrets and redact card numbers; under BASE_URL/graceful, blocked
// streams end gracefully instead.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import * as zlib from "node:zlib";

// Counted before the SDKs are loaded, so that their retries are seen.
let requestsSent = 0;
const send = globalThis.fetch;
globalThis.fetch = (...args) => { requestsSent += 1; return send(...args); };

const require = createRequire(`${process.env.CLIENTS_NODE}/`);
const OpenAI = require("openai");
const Anthropic = require("@anthropic-ai/sdk");
const { GoogleGenAI, ApiError } = require("@google/genai");
const { Ollama } = require("ollama");

const BASE = process.argv[2].replace(/\/$/, "");
const GRACEFUL = `${BASE}/graceful`;
const DIRECT = process.argv.includes("--direct");
const CARD = "4111 1111 1111 1111";
const PROSE = "Grüße aus Zürich! The build took 41 s; a list: [1, 2.50, -3e8], “quotes” and a 👩‍👩‍👧 family.";
const SAY = `say: ${PROSE}`;
const SAY_CARD = "say: card {card} thanks";
const SAY_SECRET = "say: here it is: {github_token} and that was it";
const CALL_SECRET = `weather, ${SAY_SECRET}`;
const LEAK = `please check my token ${githubToken(5)}`;
const WEATHER = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const TOOLS = [{ type: "function", function: { name: "weather", parameters: WEATHER } }];
const RESPONSES_TOOLS = [{ type: "function", name: "weather", parameters: WEATHER, strict: false }];

// A token of GitHub's documented form, its checksum included, made so that no file holds one.
function githubToken(seed) {
  const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const body = Array.from({ length: 30 }, (_, i) => base62[(seed * 7 + i * 23) % 62]).join("");
  let digits = "";
  for (let rest = checksum(body), n = 0; n < 6; n += 1) {
    digits = base62[rest % 62] + digits;
    rest = Math.floor(rest / 62);
  }
  return `ghp_${body}${digits}`;
}

// Node has had zlib.crc32 only since 20.15.
function checksum(text) {
  if (zlib.crc32) return zlib.crc32(text);
  let crc = 0xffffffff;
  for (const byte of Buffer.from(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

const user = (text) => [{ role: "user", content: text }];
const openai = (base = BASE) => new OpenAI({ baseURL: `${base}/v1`, apiKey: "unused" });
const anthropic = (base = BASE) => new Anthropic({ baseURL: base, apiKey: "unused" });
const gemini = (base = BASE) => new GoogleGenAI({ apiKey: "unused", httpOptions: { baseUrl: base } });

const ollama = (base = BASE) => new Ollama({ host: base });

// Runs a call that must reject with `kind` after exactly one request, and returns the error.
async function raises(kind, call) {
  const before = requestsSent;
  let error;
  try { await call(); } catch (caught) { error = caught; }
  assert.ok(error instanceof kind, `wanted ${kind.name}, got ${error?.stack ?? "no error"}`);
  assert.equal(requestsSent - before, 1, "requests sent");
  return error;
}

function redacted(text) {
  assert.ok(text.startsWith("card ") && text.endsWith(" thanks"), `the words around it changed: ${text}`);
  assert.ok(!text.includes("4111") && text.length > "card  thanks".length, `not redacted: ${text}`);
  assert.ok(!text.includes(CARD));
}

function openaiRefused(error) {
  assert.deepEqual([error.status, error.code, error.type], [403, "content_blocked", "invalid_request_error"]);
  assert.ok(error.error.message && error.requestID, "the message or the request id is empty");
}

async function chatStream(prompt, base) {
  const stream = await openai(base).chat.completions.create({ model: "sample", messages: user(prompt), stream: true });
  let text = "", finish;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
  }
  return { text, finish };
}

async function callStream(prompt, base) {
  const stream = await openai(base).chat.completions.create(
    { model: "sample", messages: user(prompt), tools: TOOLS, stream: true });
  let text = "", finish;
  for await (const chunk of stream) {
    for (const call of chunk.choices[0]?.delta.tool_calls ?? []) text += call.function.arguments ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
  }
  return { text, finish };
}

async function completionStream(prompt, base) {
  const stream = await openai(base).completions.create({ model: "sample", prompt, stream: true });
  let text = "", finish;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.text ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
  }
  return { text, finish };
}

// The events that the SDK's own helper makes of a stream.
async function responseEvents(input, base, more = {}) {
  const events = [];
  for await (const event of openai(base).responses.stream({ model: "sample", input, ...more })) events.push(event);
  return events;
}

async function messageStream(prompt, base, more = {}) {
  const stream = anthropic(base).messages.stream(
    { model: "sample", max_tokens: 1000, messages: user(prompt), ...more });
  const message = await stream.finalMessage();
  return { text: message.content.map((block) => block.text).join(""), reason: message.stop_reason };
}

async function geminiStream(prompt, base) {
  const chunks = [];
  for await (const chunk of await gemini(base).models.generateContentStream({ model: "sample", contents: prompt })) {
    chunks.push(chunk);
  }
  return { text: chunks.map((chunk) => chunk.text ?? "").join(""), last: chunks.at(-1) };
}

async function ollamaStream(prompt, base) {
  const lines = [];
  for await (const line of await ollama(base).chat({ model: "sample", messages: user(prompt), stream: true })) {
    lines.push(line);
  }
  return { text: lines.map((line) => line.message.content ?? "").join(""), done: lines.at(-1).done };
}

async function generateStream(prompt, base) {
  const lines = [];
  for await (const line of await ollama(base).generate({ model: "sample", prompt, stream: true })) lines.push(line);
  return { text: lines.map((line) => line.response).join(""), last: lines.at(-1) };
}

function partly(text) {
  assert.ok(text && !text.includes("ghp_"), `nothing, or a part of the secret left: ${text}`);
}

const ordinary = {
  async openai_chat_whole_and_streamed() {
    const answer = await openai().chat.completions.create({ model: "sample", messages: user(SAY) });
    assert.equal(answer.choices[0].message.content, PROSE);
    assert.deepEqual(await chatStream(SAY), { text: PROSE, finish: "stop" });
  },
  async openai_responses_whole_and_streamed() {
    const answer = await openai().responses.create({ model: "sample", input: SAY });
    assert.equal(answer.output_text, PROSE);
    let text = "";
    for await (const event of await openai().responses.create({ model: "sample", input: SAY, stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    assert.equal(text, PROSE);
  },
  async openai_tool_stream() {
    const stream = openai().chat.completions.stream({ model: "sample", messages: user("weather, say: Oslo"), tools: TOOLS });
    const call = (await stream.finalChatCompletion()).choices[0].message.tool_calls[0];
    assert.deepEqual([call.function.name, call.function.arguments], ["weather", '{"city":"Oslo"}']);
  },
  async openai_embeddings() {
    const answer = await openai().embeddings.create({ model: "sample", input: "a" });
    assert.equal(answer.data[0].embedding.length, 256);
  },
  async anthropic_whole_and_streamed() {
    const answer = await anthropic().messages.create({ model: "sample", max_tokens: 1000, messages: user(SAY) });
    assert.equal(answer.content[0].text, PROSE);
    assert.deepEqual(await messageStream(SAY), { text: PROSE, reason: "end_turn" });
  },
  async anthropic_tool_stream() {
    const tools = [{ name: "weather", input_schema: WEATHER }];
    const stream = anthropic().messages.stream({ model: "sample", max_tokens: 1000, messages: user("weather"), tools });
    assert.deepEqual((await stream.finalMessage()).content[0].input, { city: "sample" });
  },
  async gemini_whole_and_streamed() {
    const answer = await gemini().models.generateContent({ model: "sample", contents: SAY });
    assert.equal(answer.text, PROSE);
    assert.equal((await geminiStream(SAY)).text, PROSE);
  },
  async ollama_whole_and_streamed() {
    const answer = await ollama().chat({ model: "sample", messages: user(SAY) });
    assert.equal(answer.message.content, PROSE);
    assert.equal((await ollama().generate({ model: "sample", prompt: SAY })).response, PROSE);
    assert.deepEqual(await ollamaStream(SAY), { text: PROSE, done: true });
  },
  async ollama_tool() {
    const answer = await ollama().chat({ model: "sample", messages: user("weather, say: Oslo"), tools: TOOLS });
    assert.deepEqual(answer.message.tool_calls[0].function.arguments, { city: "Oslo" });
  },
};

const guarded = {
  async openai_block() {
    const client = openai();
    openaiRefused(await raises(OpenAI.PermissionDeniedError, () =>
      client.chat.completions.create({ model: "sample", messages: user(LEAK) })));
    openaiRefused(await raises(OpenAI.PermissionDeniedError, () => chatStream(LEAK)));
    openaiRefused(await raises(OpenAI.PermissionDeniedError, () =>
      client.responses.create({ model: "sample", input: LEAK })));
  },
  async openai_block_of_an_answer() {
    openaiRefused(await raises(OpenAI.PermissionDeniedError, () =>
      openai().chat.completions.create({ model: "sample", messages: user(SAY_SECRET) })));
  },
  async openai_block_in_a_stream() {
    const error = await raises(OpenAI.APIError, () => chatStream(SAY_SECRET));
    assert.equal(error.code, "content_blocked");
    assert.ok(error.message && error.type, "the message or the type is empty");
  },
  async openai_block_in_a_responses_stream() {
    const error = await raises(OpenAI.APIError, async () => {
      const stream = await openai().responses.create({ model: "sample", input: SAY_SECRET, stream: true });
      for await (const event of stream) void event;
    });
    assert.equal(error.code, "content_blocked");
  },
  async openai_block_in_other_streams() {
    for (const call of [
      () => responseEvents(SAY_SECRET),
      () => responseEvents(CALL_SECRET, BASE, { tools: RESPONSES_TOOLS }),
      () => completionStream(SAY_SECRET),
      () => callStream(CALL_SECRET),
    ]) assert.equal((await raises(OpenAI.APIError, call)).code, "content_blocked");
  },
  async openai_graceful_end_of_a_responses_stream() {
    const events = await responseEvents(SAY_SECRET, GRACEFUL);
    const said = events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta).join("");
    partly(said);
    const [done, , item, last] = events.slice(-4);
    assert.deepEqual(events.slice(-4).map((event) => event.type), ["response.output_text.done",
      "response.content_part.done", "response.output_item.done", "response.incomplete"]);
    assert.deepEqual([done.text, item.item.status], [said, "incomplete"]);
    assert.equal(last.response.output[0].content[0].text, said);
    assert.equal(last.response.incomplete_details.reason, "content_filter");
  },
  async openai_graceful_end_of_a_call_in_a_responses_stream() {
    const events = await responseEvents(CALL_SECRET, GRACEFUL, { tools: RESPONSES_TOOLS });
    assert.deepEqual([events.at(-1).type, events.at(-1).response.output], ["response.incomplete", []]);
    const over = events.filter((event) => event.type === "response.output_item.done");
    assert.deepEqual(over, [], "half a call was told to be whole");
  },
  async openai_graceful_end_of_other_streams() {
    for (const stream of [completionStream(SAY_SECRET, GRACEFUL), callStream(CALL_SECRET, GRACEFUL)]) {
      const { text, finish } = await stream;
      assert.equal(finish, "content_filter");
      partly(text);
    }
  },
  async openai_graceful_end_of_a_stream() {
    const { text, finish } = await chatStream(SAY_SECRET, GRACEFUL);
    assert.equal(finish, "content_filter");
    assert.ok(!text.includes("ghp_"), "a part of the secret left");
  },
  async openai_redaction_in_a_stream() { redacted((await chatStream(SAY_CARD)).text); },
  async anthropic_block() {
    const error = await raises(Anthropic.PermissionDeniedError, () =>
      anthropic().messages.create({ model: "sample", max_tokens: 1000, messages: user(LEAK) }));
    assert.deepEqual([error.status, error.error.error.type], [403, "permission_error"]);
    assert.ok(error.error.error.message && error.requestID, "the message or the request id is empty");
  },
  async anthropic_block_in_a_stream() {
    const error = await raises(Anthropic.APIError, () => messageStream(SAY_SECRET));
    assert.ok(error.message.includes("security policy"), `another error: ${error.message}`);
  },
  async anthropic_graceful_end_of_a_stream() {
    const { text, reason } = await messageStream(SAY_SECRET, GRACEFUL);
    assert.equal(reason, "refusal");
    assert.ok(!text.includes("ghp_"), "a part of the secret left");
  },
  async anthropic_ends_of_a_stream_of_a_call() {
    const tools = [{ name: "weather", input_schema: WEATHER }];
    const error = await raises(Anthropic.APIError, () => messageStream(CALL_SECRET, BASE, { tools }));
    assert.ok(error.message.includes("security policy"), `another error: ${error.message}`);
    assert.equal((await messageStream(CALL_SECRET, GRACEFUL, { tools })).reason, "refusal");
  },
  async anthropic_redaction_in_a_stream() { redacted((await messageStream(SAY_CARD)).text); },
  async gemini_block() {
    const error = await raises(ApiError, () =>
      gemini().models.generateContent({ model: "sample", contents: LEAK }));
    assert.equal(error.status, 403);
    assert.ok(error.message, "the message is empty");
  },
  async gemini_block_in_a_stream() {
    const error = await raises(ApiError, () => geminiStream(SAY_SECRET));
    assert.ok(error.message.includes("security policy"), `another error: ${error.message}`);
  },
  async gemini_graceful_end_of_a_stream() {
    const { text, last } = await geminiStream(SAY_SECRET, GRACEFUL);
    assert.equal(last.candidates[0].finishReason, "SAFETY");
    assert.ok(!text.includes("ghp_"), "a part of the secret left");
  },
  async gemini_redaction_in_a_stream() { redacted((await geminiStream(SAY_CARD)).text); },
  async ollama_block() {
    const error = await raises(Error, () => ollama().chat({ model: "sample", messages: user(LEAK) }));
    assert.deepEqual([error.name, error.status_code], ["ResponseError", 403]);
    assert.ok(error.error, "the message is empty");
  },
  async ollama_block_in_a_stream() {
    const error = await raises(Error, () => ollamaStream(SAY_SECRET));
    assert.ok(error.message.includes("security policy"), `another error: ${error.message}`);
  },
  async ollama_graceful_end_of_a_stream() {
    const { text, done } = await ollamaStream(SAY_SECRET, GRACEFUL);
    assert.ok(done && !text.includes("ghp_"), "the stream did not end, or a part of the secret left");
  },
  async ollama_ends_of_a_stream_of_generate() {
    const error = await raises(Error, () => generateStream(SAY_SECRET));
    assert.ok(error.message.includes("security policy"), `another error: ${error.message}`);
    const { text, last } = await generateStream(SAY_SECRET, GRACEFUL);
    assert.deepEqual([last.done, last.done_reason], [true, "content_filter"]);
    partly(text);
  },
  async ollama_redaction_in_a_stream() { redacted((await ollamaStream(SAY_CARD)).text); },
};

let passed = 0, failed = 0;
for (const [name, test] of Object.entries(DIRECT ? ordinary : { ...ordinary, ...guarded })) {
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
