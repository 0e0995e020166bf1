"""OpenAI's own SDK, over Realtime, against the gateway, with `realtime_peer.py` behind it.

Usage: realtime.py BASE_URL. The gateway blocks secrets and redacts card numbers in both directions.
"""

import base64
import json
import sys

import openai
from websockets.exceptions import ConnectionClosed

import harness
from harness import CARD, PROSE, equal, github_token, holds, redacted

BASE = sys.argv[1].rstrip("/")
SOUND = bytes(range(256)) * 8


def connected(**options):
    client = openai.OpenAI(base_url=BASE + "/v1", api_key="unused")
    return client.realtime.connect(model="sample", websocket_connection_options=options)


def opened(connection):
    equal(connection.recv().type, "session.created")
    return connection


def ask(connection, text):
    """Asks for a response and returns its text, its transcript, its arguments and its sound."""
    connection.conversation.item.create(
        item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    connection.response.create()
    said = {"response.output_text.delta": "", "response.output_audio_transcript.delta": "",
            "response.function_call_arguments.delta": "", "response.output_audio.delta": ""}
    for event in connection:
        if event.type in said:
            said[event.type] += event.delta
        if event.type == "error":
            raise AssertionError(f"an error came: {event}")
        if event.type == "response.done":
            return list(said.values()) + [event.response.output[0].content[0].text]


def ended(connection, call):
    """Runs a call that must end the connection; returns the error event that came before."""
    error = None
    try:
        call()
        while True:
            event = connection.recv()
            error = event.error if event.type == "error" else error
    except ConnectionClosed as closed:
        equal((closed.rcvd.code, closed.rcvd.reason), (1008, "content_blocked"))
    equal(error.code, "content_blocked")
    holds("github_token" in error.message and github_token(5) not in error.message, f"not said as it should be: {error}")


def test_a_conversation():
    with connected() as connection:
        opened(connection)
        connection.session.update(session={"type": "realtime", "instructions": "Be brief."})
        updated = connection.recv()
        equal((updated.type, updated.session.instructions), ("session.updated", "Be brief."))
        for _ in range(3):
            text, transcript, arguments, sound, whole = ask(connection, "say: " + PROSE)
            equal((text, transcript, whole), (PROSE, PROSE, PROSE))
            equal((json.loads(arguments)["city"], base64.b64decode(sound)), (PROSE, SOUND))


def test_sound_of_the_caller():
    with connected() as connection:
        opened(connection)
        for _ in range(5):
            connection.input_audio_buffer.append(audio=base64.b64encode(SOUND).decode())
        connection.input_audio_buffer.commit()
        equal(connection.recv().item_id, f"bytes_{len(SOUND) * 5}")


def test_redaction_both_ways():
    with connected() as connection:
        opened(connection)
        text, transcript, arguments, _, whole = ask(connection, "say: card {card} thanks")
        for said in (text, transcript, json.loads(arguments)["city"], whole):
            redacted(said)
        redacted(ask(connection, f"card {CARD} thanks")[0])
        equal(ask(connection, "say: " + PROSE)[0], PROSE)


def test_a_secret_of_the_caller_ends_it():
    with connected() as connection:
        opened(connection)
        ended(connection, lambda: connection.conversation.item.create(item={
            "type": "message", "role": "user", "content": [{"type": "input_text", "text": "token " + github_token(5)}]}))


def test_a_secret_of_the_provider_ends_it():
    with connected() as connection:
        opened(connection)
        connection.conversation.item.create(item={"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "say: here it is: {github_token} and that was it"}]})
        ended(connection, connection.response.create)


def test_compression_is_not_agreed_on():
    with connected(compression="deflate", max_size=1 << 20) as connection:
        opened(connection)
        equal(ask(connection, "say: " + PROSE)[0], PROSE)


async def test_the_asynchronous_client():
    client = openai.AsyncOpenAI(base_url=BASE + "/v1", api_key="unused")
    async with client.realtime.connect(model="sample") as connection:
        equal((await connection.recv()).type, "session.created")
        await connection.session.update(session={"type": "realtime", "instructions": f"card {CARD} thanks"})
        redacted((await connection.recv()).session.instructions)


if __name__ == "__main__":
    sys.exit(harness.run(sys.modules[__name__], False))
