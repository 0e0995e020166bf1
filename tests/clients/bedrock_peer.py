"""A scripted Bedrock for the client tests: Converse and Anthropic's bodies, whole and in frames.

Usage: bedrock_peer.py ACCESS_KEY_ID SECRET SESSION_TOKEN. Prints its port, then serves until it is ended. It says what the
last user message asks for, as the sample provider does: `say: TEXT`, with {card} and {github_token} put in; else it says
what it was told. Under /strict it answers only what is signed with the credentials it was given, which botocore's own
signer tells.
"""

import base64
import hashlib
import json
import struct
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from harness import CARD, github_token

CREDENTIALS = Credentials(*sys.argv[1:4])
REGION, SERVICE = "eu-west-1", "bedrock"
PIECE = 7


def frame(name, payload):
    headers = b""
    for key, value in ((":event-type", name), (":content-type", "application/json"), (":message-type", "event")):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    payload = json.dumps(payload).encode()
    prelude = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def enveloped(event):
    return frame("chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": "abcdefghij"})


def pieces(text):
    return [text[at:at + 3] for at in range(0, len(text), 3)]


def converse_frames(text, tool):
    start = {"toolUse": {"toolUseId": "t1", "name": "weather"}} if tool else {}
    delta = (lambda piece: {"toolUse": {"input": piece}}) if tool else (lambda piece: {"text": piece})
    said = json.dumps({"city": text}) if tool else text
    yield frame("messageStart", {"role": "assistant", "p": "abc"})
    if tool:
        yield frame("contentBlockStart", {"contentBlockIndex": 0, "start": start, "p": "ab"})
    for piece in pieces(said):
        yield frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": delta(piece), "p": "abcdefg"[:len(piece)]})
    yield frame("contentBlockStop", {"contentBlockIndex": 0})
    yield frame("messageStop", {"stopReason": "tool_use" if tool else "end_turn"})
    yield frame("metadata", {"usage": {"inputTokens": 3, "outputTokens": 7, "totalTokens": 10}, "metrics": {"latencyMs": 5}})


def anthropic_frames(text):
    usage = {"input_tokens": 3, "output_tokens": 1}
    yield enveloped({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [], "usage": usage}})
    yield enveloped({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for piece in pieces(text):
        yield enveloped({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})
    yield enveloped({"type": "content_block_stop", "index": 0})
    yield enveloped({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}})
    yield enveloped({"type": "message_stop"})


def wanted(body):
    last = body["messages"][-1]["content"]
    text = last if isinstance(last, str) else last[0]["text"]
    return text.partition("say: ")[2].replace("{card}", CARD).replace("{github_token}", github_token(5)) or text


class Bedrock(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        path = self.path
        if path.startswith("/strict/"):
            if not self.is_signed(body):
                return self.whole(403, {"__type": "InvalidSignatureException", "message": "the signature does not fit"})
            path = path.removeprefix("/strict")
        model, operation = path.split("/")[-2:]
        text, tool = wanted(json.loads(body)), unquote(model) == "tool"
        if operation == "converse":
            content = {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": text}}} if tool else {"text": text}
            self.whole(200, {"output": {"message": {"role": "assistant", "content": [content]}}, "stopReason": "end_turn",
                             "usage": {"inputTokens": 3, "outputTokens": 7, "totalTokens": 10}, "metrics": {"latencyMs": 5}})
        elif operation == "invoke":
            self.whole(200, {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn",
                             "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 3, "output_tokens": 7}})
        elif operation == "converse-stream":
            self.stream(converse_frames(text, tool))
        else:
            self.stream(anthropic_frames(text))

    def whole(self, status, answer):
        answer = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def stream(self, frames):
        self.send_response(200)
        self.send_header("content-type", "application/vnd.amazon.eventstream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        stream = b"".join(frames)
        try:
            for at in range(0, len(stream), PIECE):
                piece = stream[at:at + PIECE]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            # The gateway has cut the stream.
            self.close_connection = True

    def is_signed(self, body):
        """Signs what came once more, as botocore would, and compares."""
        given = self.headers.get("authorization", "")
        scheme, _, parameters = given.partition(" ")
        parameters = dict(pair.strip().split("=", 1) for pair in parameters.split(",") if "=" in pair)
        names = parameters.get("SignedHeaders", "").split(";")
        if scheme != "AWS4-HMAC-SHA256" or not {"host", "x-amz-date", "x-amz-security-token"} <= set(names):
            return False
        if self.headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
            return False
        headers = {name: self.headers[name] for name in names}
        request = AWSRequest("POST", f"http://{self.headers['host']}{self.path}", headers=headers, data=body)
        request.context["timestamp"] = self.headers["x-amz-date"]
        signer = SigV4Auth(CREDENTIALS, SERVICE, REGION)
        expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        scope = f"{CREDENTIALS.access_key}/{signer.credential_scope(request)}"
        token = self.headers["x-amz-security-token"]
        return (parameters["Signature"], parameters["Credential"], token) == (expected, scope, CREDENTIALS.token)


server = ThreadingHTTPServer(("127.0.0.1", 0), Bedrock)
print(server.server_address[1], flush=True)
server.serve_forever()
