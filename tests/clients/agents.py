"""The official A2A and MCP SDKs for Python through the gateway, whose built-in policy must be in force.

Usage: agents.py BASE_URL GUARDED_URL DIRECTORY. BASE_URL/a2a leads to the agent and BASE_URL/mcp to the
tools of peers.py. GUARDED_URL/agents and GUARDED_URL/tools lead to both by routes for agents, and the directory
holds what these take: `planner.pem`, `planner.key`, `cert.pem` (whom to trust) and `planner.secret`.
"""

import asyncio
import base64
import hashlib
import hmac
import pathlib
import ssl
import sys

import httpx
import httpx2
from a2a.client import A2AClientError, ClientConfig, create_client
from a2a.helpers.proto_helpers import get_message_text, new_text_message
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Role, SendMessageRequest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

import harness
from harness import equal, github_token, holds

BASE, GUARDED, FILES = sys.argv[1].rstrip("/"), sys.argv[2].rstrip("/"), pathlib.Path(sys.argv[3])
PLAIN = "The harbour opens at nine, Grüße!"
LEAK = "please keep my token " + github_token(5)
REFUSED = -32050


# === MCP ===

async def call_tool(name):
    async with Client(BASE + "/mcp") as client:
        return await client.call_tool("read_note", {"name": name})


async def tool_refused(name):
    try:
        result = await call_tool(name)
    except BaseException as error:
        return told(error)
    raise AssertionError(f"nothing was raised, but {result!r} returned")


def told(error):
    """Returns the error of the SDK behind the groups that its tasks wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    holds(isinstance(error, MCPError), f"another kind of error: {error!r}")
    equal((error.code, error.data["code"]), (REFUSED, "content_blocked"))
    return error


def test_mcp_tools_are_listed_and_called():
    async def talk():
        async with Client(BASE + "/mcp") as client:
            listed = await client.list_tools()
            result = await client.call_tool("read_note", {"name": "plain"})
            return [tool.name for tool in listed.tools], result.content[0].text
    equal(asyncio.run(talk()), (["read_note"], PLAIN))


def test_mcp_a_secret_to_a_tool_raises():
    error = asyncio.run(tool_refused(LEAK))
    holds(github_token(5) not in str(error), "the error repeats the secret")


def test_mcp_a_secret_from_a_tool_raises():
    error = asyncio.run(tool_refused("leak"))
    holds(github_token(3) not in str(error), "the error repeats the secret")


def test_mcp_orders_in_a_result_raise():
    asyncio.run(tool_refused("orders"))


# === A2A ===

async def ask(text, streams, base=BASE + "/a2a", http=None):
    card = AgentCard(
        name="Clerk", version="1", capabilities=AgentCapabilities(streaming=streams),
        supported_interfaces=[AgentInterface(
            url=base + "/", protocol_binding="JSONRPC", protocol_version="1.0")])
    client = await create_client(card, ClientConfig(streaming=streams, httpx_client=http))
    request = SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))
    said = [get_message_text(event.message) async for event in client.send_message(request)]
    await client.close()
    return "".join(said)


def test_a2a_agents_talk():
    for streams in (False, True):
        equal(asyncio.run(ask("plain", streams)), PLAIN)


def test_a2a_what_must_not_be_said_raises():
    for streams in (False, True):
        for text in (LEAK, "leak", "orders"):
            try:
                said = asyncio.run(ask(text, streams))
            except A2AClientError as error:
                holds("ghp_" not in str(error), "the error repeats the secret")
                holds("403" in str(error) or str(REFUSED) in str(error), f"another error: {error}")
            else:
                raise AssertionError(f"nothing was raised, but {said!r} said")


# === Guardrails ===

class Signing:
    """Names the agent and its capability, and signs each body: all that an SDK needs to pass guardrails."""
    requires_request_body = True

    def __init__(self, capability):
        self.capability = capability
        self.secret = (FILES / "planner.secret").read_text().strip().encode()

    def auth_flow(self, request):
        mac = hmac.new(self.secret, request.content, hashlib.sha256).digest()
        request.headers["X-A2A-Agent-ID"] = "planner"
        request.headers["A2A-Capability"] = self.capability
        request.headers["A2A-Signature"] = base64.b64encode(mac).decode()
        yield request


class Signed(Signing, httpx.Auth):
    """For the SDK of A2A."""


class SignedToo(Signing, httpx2.Auth):
    """For the SDK of MCP."""


def trusting(with_certificate):
    context = ssl.create_default_context(cafile=FILES / "cert.pem")
    if with_certificate:
        context.load_cert_chain(FILES / "planner.pem", FILES / "planner.key")
    return context


def guarded(capability, with_certificate=True):
    http = httpx.AsyncClient(verify=trusting(with_certificate), auth=Signed(capability))
    return ask("plain", False, GUARDED + "/agents", http)


async def guarded_tool(name, capability="ask", with_certificate=True):
    async with httpx2.AsyncClient(verify=trusting(with_certificate), auth=SignedToo(capability)) as http:
        async with Client(streamable_http_client(GUARDED + "/tools/mcp", http_client=http)) as client:
            return (await client.call_tool("read_note", {"name": name})).content[0].text


def test_guardrails_let_a_signed_call_of_the_sdk_pass():
    equal(asyncio.run(guarded("ask")), PLAIN)


def test_guardrails_refuse_what_was_not_granted():
    for call in (guarded("fly"), guarded("ask", with_certificate=False)):
        try:
            asyncio.run(call)
        except A2AClientError as error:
            holds("403" in str(error), f"another error: {error}")
        else:
            raise AssertionError("a call passed that should not")


def test_guardrails_let_a_signed_call_of_a_tool_pass():
    equal(asyncio.run(guarded_tool("plain")), PLAIN)


def test_guardrails_read_what_tools_say():
    try:
        said = asyncio.run(guarded_tool("leak"))
    except BaseException as error:
        told(error)
    else:
        raise AssertionError(f"nothing was raised, but {said!r} said")


def test_guardrails_refuse_tools_that_were_not_granted():
    for call in (guarded_tool("plain", "fly"), guarded_tool("plain", with_certificate=False)):
        try:
            said = asyncio.run(call)
        except BaseException as error:
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            holds("A2A_" in repr(error) or "403" in repr(error) or isinstance(error, MCPError), f"another: {error!r}")
        else:
            raise AssertionError(f"a call passed that should not, and said {said!r}")


if __name__ == "__main__":
    sys.exit(harness.run(sys.modules[__name__], False))
