"""Providers that look for their keys in one place each, for the client tests.

Usage: keyed_peer.py. Prints its port, then serves until it is ended. The first part of a path says which provider it is; who
shows another key, in another place, or anything beside it, gets 401 and learns what came.
"""

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PLACES = ("authorization", "x-api-key", "x-goog-api-key", "api-key", "x-api-token")
WANTED = {
    "anthropic": {"x-api-key": "sk-ant-api03-of-the-tests"},
    "oauth": {"authorization": "Bearer sk-ant-oat01-of-the-tests"},
    "openai": {"authorization": "Bearer sk-of-the-tests"},
    "google": {"x-goog-api-key": "AIza-of-the-tests"},
}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
           "content": [{"type": "text", "text": "hello"}], "usage": {"input_tokens": 1, "output_tokens": 1}}
MODEL = {"id": "m", "type": "model", "object": "model", "created": 0, "owned_by": "x", "display_name": "m",
         "created_at": "2026-01-01T00:00:00Z"}
ANSWERS = {
    "/messages": MESSAGE,
    "/models": {"object": "list", "data": [MODEL], "has_more": False, "first_id": "m", "last_id": "m"},
    "/chat/completions": {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}]},
    ":generateContent": {"candidates": [
        {"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [{"text": "hello"}]}}]},
}


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        _, name, rest = self.path.split("?")[0].split("/", 2)
        rest = "/" + rest
        came = {place: self.headers[place] for place in PLACES if place in self.headers}
        if came != WANTED[name]:
            return self.whole(401, {"error": {"type": "authentication_error", "message": f"came: {came}"}})
        if self.headers.get("upgrade", "").lower() == "websocket":
            return self.switch()
        self.whole(200, next(answer for end, answer in ANSWERS.items() if rest.endswith(end)))

    def switch(self):
        """Agrees to a WebSocket, and ends it at once."""
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("connection", "upgrade")
        self.send_header("upgrade", "websocket")
        self.send_header("sec-websocket-accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.send_header("sec-websocket-protocol", self.headers["sec-websocket-protocol"].split(",")[0])
        self.end_headers()
        self.wfile.write(bytes([0x88, 2, 0x03, 0xE8]))
        self.close_connection = True

    def whole(self, status, answer):
        answer = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
print(server.server_address[1], flush=True)
server.serve_forever()
