"""What the client tests share: cases, counted requests, and values that look like secrets."""

import asyncio
import importlib
import inspect
import sys
import traceback
import zlib

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CARD = "4111 1111 1111 1111"
PROSE = "Grüße aus Zürich! The build took 41 s; a list: [1, 2.50, -3e8], “quotes” and a 👩‍👩‍👧 family."

requests_sent = 0


def github_token(seed):
    """A token of GitHub's documented form, its checksum included, made so that no file holds one."""
    body = "".join(BASE62[(seed * 7 + i * 23) % 62] for i in range(30))
    rest, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        rest, digit = divmod(rest, 62)
        digits = BASE62[digit] + digits
    return "ghp_" + body + digits


def count_requests():
    """Counts every HTTP request that an SDK sends, below its retries."""
    for name in ("httpx", "httpx2"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        for transport, method in ((module.HTTPTransport, "handle_request"),
                                  (module.AsyncHTTPTransport, "handle_async_request")):
            setattr(transport, method, counted(getattr(transport, method)))


def counted(send):
    def wrapper(*args, **kwargs):
        global requests_sent
        requests_sent += 1
        return send(*args, **kwargs)
    return wrapper


def equal(got, wanted):
    if got != wanted:
        raise AssertionError(f"got {got!r}, wanted {wanted!r}")


def holds(condition, what):
    if not condition:
        raise AssertionError(what)


def raises(kind, call):
    """Runs a call that must raise `kind` after exactly one request, and returns the exception."""
    before = requests_sent
    try:
        result = call()
        if inspect.isawaitable(result):
            asyncio.run(settled(result))
    except kind as error:
        equal(requests_sent - before, 1)
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


async def settled(awaitable):
    return await awaitable


def redacted(text):
    """Checks a streamed `card CARD thanks` of which only the card was rewritten."""
    holds(text.startswith("card ") and text.endswith(" thanks"), f"the words around it changed: {text!r}")
    holds(CARD not in text and "4111" not in text, f"the card was not redacted: {text!r}")
    holds(len(text) > len("card  thanks"), f"the card was dropped, not masked: {text!r}")


def run(suite, direct):
    """Runs every function named `test_…` of a module; with `direct`, only ordinary answers."""
    count_requests()
    passed = failed = 0
    for name, test in inspect.getmembers(suite, inspect.isfunction):
        if not name.startswith("test_") or (direct and name.startswith("test_gateway_")):
            continue
        try:
            outcome = test()
            if inspect.isawaitable(outcome):
                asyncio.run(settled(outcome))
            passed += 1
        except Exception:
            failed += 1
            print(f"FAIL {name}", file=sys.stderr)
            traceback.print_exc()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
