"""Official Python clients against the gateway (or, with --direct, the sample provider itself).

Usage: clients.py BASE_URL [--direct]. The gateway's policy must block secrets and redact card
numbers in both directions; under BASE_URL/graceful, blocked streams end gracefully instead, and
under BASE_URL/placeholders, card numbers become placeholders that answers turn back.
"""

import sys

import anthropic
import ollama
import openai
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types

import harness
from harness import CARD, PROSE, equal, github_token, holds, raises, redacted

BASE = sys.argv[1].rstrip("/")
GRACEFUL = BASE + "/graceful"
PLACEHOLDERS = BASE + "/placeholders"
SAY = "say: " + PROSE
SAY_CARD = "say: card {card} thanks"
SAY_SECRET = "say: here it is: {github_token} and that was it"
CALL_SECRET = "weather, " + SAY_SECRET
LEAK = "please check my token " + github_token(5)
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]


def user(text):
    return [{"role": "user", "content": text}]


# === OpenAI ===

def openai_client(base=BASE):
    return openai.OpenAI(base_url=base + "/v1", api_key="unused")


def chat_stream(prompt, base=BASE):
    return openai_client(base).chat.completions.create(model="sample", messages=user(prompt), stream=True)


def chat_text(stream):
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def completion_chunks(prompt, base=BASE):
    return list(openai_client(base).completions.create(model="sample", prompt=prompt, stream=True))


def call_chunks(prompt, base=BASE):
    stream = openai_client(base).chat.completions.create(
        model="sample", messages=user(prompt), tools=TOOLS, stream=True)
    return [chunk for chunk in stream if chunk.choices]


def response_events(prompt, base=BASE, **more):
    """The events that the SDK's own helper makes of a stream, and what it takes for the final response."""
    with openai_client(base).responses.stream(model="sample", input=prompt, **more) as stream:
        events = list(stream)
        return events, stream.get_final_response


def openai_refused(error):
    equal((error.status_code, error.code, error.type), (403, "content_blocked", "invalid_request_error"))
    holds(error.body["message"] and error.request_id, "the message or the request id is empty")
    holds("github_token" in str(error), "the message does not say what was found")
    holds(github_token(5) not in str(error), "the error repeats the secret")


def test_openai_chat():
    answer = openai_client().chat.completions.create(model="sample", messages=user(SAY))
    equal(answer.choices[0].message.content, PROSE)
    equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)


def test_openai_chat_stream():
    equal(chat_text(chat_stream(SAY)), PROSE)


async def test_openai_async_chat():
    async with openai.AsyncOpenAI(base_url=BASE + "/v1", api_key="unused") as client:
        answer = await client.chat.completions.create(model="sample", messages=user(SAY))
        equal(answer.choices[0].message.content, PROSE)


async def test_openai_async_chat_stream_with_usage_and_two_choices():
    async with openai.AsyncOpenAI(base_url=BASE + "/v1", api_key="unused") as client:
        stream = await client.chat.completions.create(
            model="sample", messages=user(SAY), n=2, stream=True, stream_options={"include_usage": True})
        texts, usage = ["", ""], None
        async for chunk in stream:
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
            usage = chunk.usage or usage
        equal(texts, [PROSE, PROSE])
        holds(usage.completion_tokens > 0, "no usage came")


def test_openai_responses():
    answer = openai_client().responses.create(model="sample", input=SAY)
    equal(answer.output_text, PROSE)


def test_openai_responses_stream():
    with openai_client().responses.stream(model="sample", input=SAY) as stream:
        deltas = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        equal((deltas, stream.get_final_response().output_text), (PROSE, PROSE))


def test_openai_tool_round_trip():
    client = openai_client()
    messages = user("call weather, say: Oslo")
    answer = client.chat.completions.create(model="sample", messages=messages, tools=TOOLS)
    call = answer.choices[0].message.tool_calls[0]
    equal((call.function.name, call.function.arguments), ("weather", '{"city":"Oslo"}'))
    messages += [answer.choices[0].message.model_dump(exclude_none=True),
                 {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    answer = client.chat.completions.create(model="sample", messages=messages, tools=TOOLS)
    equal(answer.choices[0].message.content, "The tool says: sunny")


def test_openai_tool_stream():
    client = openai_client()
    with client.chat.completions.stream(model="sample", messages=user("weather"), tools=TOOLS) as stream:
        for _ in stream:
            pass
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    equal((call.function.name, call.function.arguments), ("weather", '{"city":"sample"}'))


def test_openai_completions_embeddings_moderations_models():
    client = openai_client()
    equal(client.completions.create(model="sample", prompt=SAY).choices[0].text, PROSE)
    equal(len(client.embeddings.create(model="sample", input=["a", "b"]).data[1].embedding), 256)
    equal(client.moderations.create(input="hello").results[0].flagged, False)
    holds("sample" in [model.id for model in client.models.list()], "the sample model is not listed")


def test_gateway_openai_block():
    client = openai_client()
    openai_refused(raises(openai.PermissionDeniedError, lambda: client.chat.completions.create(
        model="sample", messages=user(LEAK))))
    openai_refused(raises(openai.PermissionDeniedError, lambda: client.responses.create(model="sample", input=LEAK)))
    openai_refused(raises(openai.PermissionDeniedError, lambda: chat_stream(LEAK)))
    openai_refused(raises(openai.PermissionDeniedError, lambda: client.embeddings.create(model="sample", input=LEAK)))


def test_gateway_openai_block_async():
    async def call():
        async with openai.AsyncOpenAI(base_url=BASE + "/v1", api_key="unused") as client:
            await client.chat.completions.create(model="sample", messages=user(LEAK))
    openai_refused(raises(openai.PermissionDeniedError, call))


def test_gateway_openai_block_of_an_answer():
    openai_refused(raises(openai.PermissionDeniedError, lambda: openai_client().chat.completions.create(
        model="sample", messages=user(SAY_SECRET))))


def test_gateway_openai_block_in_a_stream():
    error = raises(openai.APIError, lambda: chat_text(chat_stream(SAY_SECRET)))
    equal(error.code, "content_blocked")
    holds(error.message and error.type, "the message or the type is empty")


def test_gateway_openai_block_in_a_responses_stream():
    def call():
        for _ in openai_client().responses.create(model="sample", input=SAY_SECRET, stream=True):
            pass
    equal(raises(openai.APIError, call).code, "content_blocked")


def test_gateway_openai_block_in_a_responses_stream_behind_the_helper():
    equal(raises(openai.APIError, lambda: response_events(SAY_SECRET)).code, "content_blocked")
    tools = [{"type": "function", "name": "weather", "parameters": WEATHER}]
    equal(raises(openai.APIError, lambda: response_events(CALL_SECRET, tools=tools)).code, "content_blocked")


def test_gateway_openai_block_in_a_stream_of_completions():
    equal(raises(openai.APIError, lambda: completion_chunks(SAY_SECRET)).code, "content_blocked")


def test_gateway_openai_block_in_a_stream_of_a_call():
    equal(raises(openai.APIError, lambda: call_chunks(CALL_SECRET)).code, "content_blocked")


def test_gateway_openai_graceful_end_of_a_responses_stream():
    events, final = response_events(SAY_SECRET, GRACEFUL)
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    holds(said and "ghp_" not in said, f"nothing, or a part of the secret left: {said!r}")
    names = [event.type for event in events[-4:]]
    equal(names, ["response.output_text.done", "response.content_part.done", "response.output_item.done",
                  "response.incomplete"])
    done, _, item, last = events[-4:]
    equal((done.text, item.item.status, last.response.output_text), (said, "incomplete", said))
    equal((last.response.status, last.response.incomplete_details.reason), ("incomplete", "content_filter"))
    # The helper knows no final response but one that is completed.
    raised = None
    try:
        final()
    except RuntimeError as error:
        raised = error
    holds(raised and "response.completed" in str(raised), f"another error: {raised!r}")


def test_gateway_openai_graceful_end_of_a_call_in_a_responses_stream():
    tools = [{"type": "function", "name": "weather", "parameters": WEATHER}]
    events, _ = response_events(CALL_SECRET, GRACEFUL, tools=tools)
    equal((events[-1].type, events[-1].response.output), ("response.incomplete", []))
    holds("response.output_item.done" not in [event.type for event in events], "half a call was told to be whole")


def test_gateway_openai_graceful_end_of_a_stream_of_completions():
    chunks = completion_chunks(SAY_SECRET, GRACEFUL)
    equal(chunks[-1].choices[0].finish_reason, "content_filter")
    text = "".join(chunk.choices[0].text for chunk in chunks)
    holds(text and "ghp_" not in text, f"nothing, or a part of the secret left: {text!r}")


def test_gateway_openai_graceful_end_of_a_stream_of_a_call():
    chunks = call_chunks(CALL_SECRET, GRACEFUL)
    equal(chunks[-1].choices[0].finish_reason, "content_filter")
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    arguments = "".join(call.function.arguments for call in calls)
    holds(arguments and "ghp_" not in arguments, f"nothing, or a part of the secret left: {arguments!r}")


def test_gateway_openai_graceful_end_of_a_stream():
    chunks = [chunk for chunk in chat_stream(SAY_SECRET, GRACEFUL) if chunk.choices]
    equal(chunks[-1].choices[0].finish_reason, "content_filter")
    holds("ghp_" not in chat_text(chunks), "a part of the secret left")


def test_gateway_openai_redaction_in_a_stream():
    redacted(chat_text(chat_stream(SAY_CARD)))


def test_gateway_openai_placeholders_come_back_as_what_they_stood_for():
    client, said = openai_client(PLACEHOLDERS), f"card {CARD} thanks"
    raw = client.chat.completions.with_raw_response.create(model="sample", messages=user("say: " + said))
    # The provider got another text than the caller wrote, and the caller gets its own again.
    equal((raw.headers["x-portcullis-action"], raw.parse().choices[0].message.content), ("redact", said))
    equal(chat_text(chat_stream("say: " + said, PLACEHOLDERS)), said)
    answer = client.chat.completions.create(model="sample", messages=user(f"weather, say: {said}"), tools=TOOLS)
    equal(answer.choices[0].message.tool_calls[0].function.arguments, '{"city":"%s"}' % said)
    # What the provider says by itself is no placeholder of the caller's.
    holds("4111" not in chat_text(chat_stream(SAY_CARD, PLACEHOLDERS)), "the provider's card was not masked")


# === Anthropic ===

def messages(prompt, base=BASE, **more):
    client = anthropic.Anthropic(base_url=base, api_key="unused")
    return client.messages.create(model="sample", max_tokens=1000, messages=user(prompt), **more)


def message_text(prompt, base=BASE, **more):
    client = anthropic.Anthropic(base_url=base, api_key="unused")
    with client.messages.stream(model="sample", max_tokens=1000, messages=user(prompt), **more) as stream:
        return "".join(stream.text_stream), stream.get_final_message().stop_reason


def test_anthropic_messages():
    answer = messages(SAY)
    equal((answer.content[0].text, answer.stop_reason), (PROSE, "end_turn"))


def test_anthropic_stream():
    equal(message_text(SAY), (PROSE, "end_turn"))


def test_anthropic_tool():
    answer = messages("weather, say: Oslo", tools=[{"name": "weather", "input_schema": WEATHER}])
    equal((answer.stop_reason, answer.content[0].input), ("tool_use", {"city": "Oslo"}))


def test_gateway_anthropic_block():
    error = raises(anthropic.PermissionDeniedError, lambda: messages(LEAK))
    equal((error.status_code, error.body["error"]["type"]), (403, "permission_error"))
    holds(error.body["error"]["message"] and error.request_id, "the message or the request id is empty")


def test_gateway_anthropic_block_in_a_stream():
    error = raises(anthropic.APIStatusError, lambda: message_text(SAY_SECRET))
    equal(error.body["error"]["type"], "permission_error")


def test_gateway_anthropic_graceful_end_of_a_stream():
    text, reason = message_text(SAY_SECRET, GRACEFUL)
    equal(reason, "refusal")
    holds("ghp_" not in text, "a part of the secret left")


def test_gateway_anthropic_ends_of_a_stream_of_a_call():
    tools = [{"name": "weather", "input_schema": WEATHER}]
    error = raises(anthropic.APIStatusError, lambda: message_text(CALL_SECRET, tools=tools))
    equal(error.body["error"]["type"], "permission_error")
    equal(message_text(CALL_SECRET, GRACEFUL, tools=tools)[1], "refusal")


def test_gateway_anthropic_redaction_in_a_stream():
    redacted(message_text(SAY_CARD)[0])


# === Gemini ===

def gemini(base=BASE, version="v1beta"):
    options = genai_types.HttpOptions(base_url=base, api_version=version)
    return genai.Client(api_key="unused", vertexai=False, http_options=options)


def gemini_stream(prompt, base=BASE):
    client = gemini(base)
    return list(client.models.generate_content_stream(model="sample", contents=prompt))


def gemini_text(chunks):
    return "".join(chunk.text or "" for chunk in chunks)


def test_gemini_generate():
    client = gemini()
    equal(client.models.generate_content(model="sample", contents=SAY).text, PROSE)


def test_gemini_stream():
    equal(gemini_text(gemini_stream(SAY)), PROSE)


def test_gemini_tool():
    client = gemini()
    declared = genai_types.FunctionDeclaration(name="weather", parameters_json_schema=WEATHER)
    config = genai_types.GenerateContentConfig(tools=[genai_types.Tool(function_declarations=[declared])])
    answer = client.models.generate_content(model="sample", contents="weather, say: Oslo", config=config)
    equal((answer.function_calls[0].name, answer.function_calls[0].args), ("weather", {"city": "Oslo"}))


def test_gateway_gemini_block():
    client = gemini()
    error = raises(genai_errors.ClientError, lambda: client.models.generate_content(model="sample", contents=LEAK))
    equal((error.code, error.status), (403, "PERMISSION_DENIED"))
    holds(error.message, "the message is empty")


def test_gateway_gemini_block_under_paths_that_look_like_openai():
    client = gemini(version="v1")
    equal(client.models.generate_content(model="sample", contents=SAY).text, PROSE)
    error = raises(genai_errors.ClientError, lambda: client.models.generate_content(model="sample", contents=LEAK))
    equal((error.code, error.status), (403, "PERMISSION_DENIED"))


def test_gateway_gemini_block_in_a_stream():
    error = raises(genai_errors.ClientError, lambda: gemini_stream(SAY_SECRET))
    holds(error.message and error.code in (400, 403), f"unexpected error {error!r}")


def test_gateway_gemini_graceful_end_of_a_stream():
    chunks = gemini_stream(SAY_SECRET, GRACEFUL)
    equal(chunks[-1].candidates[0].finish_reason.name, "SAFETY")
    holds("ghp_" not in gemini_text(chunks), "a part of the secret left")


def test_gateway_gemini_redaction_in_a_stream():
    redacted(gemini_text(gemini_stream(SAY_CARD)))


# === Ollama ===

def ollama_stream(prompt, base=BASE):
    lines = list(ollama.Client(host=base).chat(model="sample", messages=user(prompt), stream=True))
    return "".join(line.message.content or "" for line in lines), lines[-1].done


def test_ollama_chat_and_generate():
    client = ollama.Client(host=BASE)
    equal(client.chat(model="sample", messages=user(SAY)).message.content, PROSE)
    equal(client.generate(model="sample", prompt=SAY).response, PROSE)


def test_ollama_stream():
    equal(ollama_stream(SAY), (PROSE, True))
    lines = ollama.Client(host=BASE).generate(model="sample", prompt=SAY, stream=True)
    equal("".join(line.response for line in lines), PROSE)


def test_ollama_tool():
    answer = ollama.Client(host=BASE).chat(model="sample", messages=user("weather, say: Oslo"), tools=TOOLS)
    equal(answer.message.tool_calls[0].function.arguments, {"city": "Oslo"})


def test_gateway_ollama_block():
    error = raises(ollama.ResponseError, lambda: ollama.Client(host=BASE).chat(model="sample", messages=user(LEAK)))
    equal(error.status_code, 403)
    holds(error.error, "the message is empty")


def test_gateway_ollama_block_in_a_stream():
    holds(raises(ollama.ResponseError, lambda: ollama_stream(SAY_SECRET)).error, "the message is empty")


def test_gateway_ollama_graceful_end_of_a_stream():
    text, done = ollama_stream(SAY_SECRET, GRACEFUL)
    holds(done and "ghp_" not in text, "the stream did not end, or a part of the secret left")


def generated(prompt, base=BASE):
    return list(ollama.Client(host=base).generate(model="sample", prompt=prompt, stream=True))


def test_gateway_ollama_ends_of_a_stream_of_generate():
    holds(raises(ollama.ResponseError, lambda: generated(SAY_SECRET)).error, "the message is empty")
    lines = generated(SAY_SECRET, GRACEFUL)
    equal((lines[-1].done, lines[-1].done_reason), (True, "content_filter"))
    text = "".join(line.response for line in lines)
    holds(text and "ghp_" not in text, f"nothing, or a part of the secret left: {text!r}")


def test_gateway_ollama_ends_of_a_stream_of_a_call():
    def lines(base):
        return list(ollama.Client(host=base).chat(
            model="sample", messages=user(CALL_SECRET), tools=TOOLS, stream=True))
    holds(raises(ollama.ResponseError, lambda: lines(BASE)).error, "the message is empty")
    last = lines(GRACEFUL)[-1]
    equal((last.done, last.done_reason, last.message.tool_calls), (True, "content_filter", None))


def test_gateway_ollama_redaction_in_a_stream():
    redacted(ollama_stream(SAY_CARD)[0])


if __name__ == "__main__":
    sys.exit(harness.run(sys.modules[__name__], "--direct" in sys.argv))
