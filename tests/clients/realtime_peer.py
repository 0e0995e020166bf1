"""A scripted Realtime provider for the client tests, on the `websockets` library.

Usage: realtime_peer.py. Prints its port, then serves until it is ended. A response says what the last message asks for
(`say: TEXT`, with {card} and {github_token} put in), or what it was told: as text, as a transcript beside sound, and as the
arguments of a call.
"""

import asyncio
import base64
import json

from websockets.asyncio.server import serve

from harness import CARD, github_token

SOUND = bytes(range(256)) * 8


def pieces(text):
    return [text[at:at + 3] for at in range(0, len(text), 3)]


def wanted(text):
    return text.partition("say: ")[2].replace("{card}", CARD).replace("{github_token}", github_token(5)) or text


def response(number, text):
    place = {"response_id": f"resp_{number}", "item_id": f"item_{number}", "content_index": 0}
    call = json.dumps({"city": text}, ensure_ascii=False)
    yield {"type": "response.created", "response": {"id": place["response_id"], "object": "realtime.response", "output": []}}
    for piece in pieces(text):
        yield {"type": "response.output_text.delta", **place, "output_index": 0, "delta": piece}
        yield {"type": "response.output_audio_transcript.delta", **place, "output_index": 1, "delta": piece}
    yield {"type": "response.output_audio.delta", **place, "output_index": 1, "delta": base64.b64encode(SOUND).decode()}
    for piece in pieces(call):
        yield {"type": "response.function_call_arguments.delta", **place, "output_index": 2, "call_id": "c", "delta": piece}
    yield {"type": "response.output_text.done", **place, "output_index": 0, "text": text}
    yield {"type": "response.output_audio_transcript.done", **place, "output_index": 1, "transcript": text}
    yield {"type": "response.function_call_arguments.done", **place, "output_index": 2, "call_id": "c", "arguments": call}
    yield {"type": "response.done", "response": {
        "id": place["response_id"], "object": "realtime.response", "status": "completed",
        "output": [{"id": place["item_id"], "type": "message", "role": "assistant",
                    "content": [{"type": "output_text", "text": text}]}]}}


async def converse(socket):
    async def say(event):
        await socket.send(json.dumps(event, ensure_ascii=False))

    text, heard, number = "", 0, 0
    await say({"type": "session.created", "session": {"id": "sess_1", "object": "realtime.session"}})
    async for message in socket:
        event = json.loads(message)
        if event["type"] == "session.update":
            await say({"type": "session.updated", "session": event["session"]})
        elif event["type"] == "conversation.item.create":
            text = event["item"]["content"][0]["text"]
            await say({"type": "conversation.item.added", "item": {"id": "u", **event["item"]}})
        elif event["type"] == "input_audio_buffer.append":
            heard += len(base64.b64decode(event["audio"]))
        elif event["type"] == "input_audio_buffer.commit":
            await say({"type": "input_audio_buffer.committed", "item_id": f"bytes_{heard}", "previous_item_id": None})
        elif event["type"] == "response.create":
            number += 1
            for event in response(number, wanted(text)):
                await say(event)


async def main():
    async with serve(converse, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


asyncio.run(main())
