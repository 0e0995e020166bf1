"""AWS's own SDK for Python against the gateway, with `bedrock_peer.py` behind it.

Usage: bedrock.py BASE_URL KEY. The gateway blocks secrets and redacts card numbers in both directions. Under
BASE_URL/plain the caller's own credential goes through; BASE_URL/signed takes KEY and signs with credentials of its own.
"""

import json
import sys

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

import harness
from harness import CARD, PROSE, equal, github_token, holds, redacted

BASE, KEY = sys.argv[1].rstrip("/"), sys.argv[2]
SAY = "say: " + PROSE
SAY_CARD = "say: card {card} thanks"
SAY_SECRET = "say: here it is: {github_token} and that was it"
LEAK = "please check my token " + github_token(5)
MODEL = "eu.anthropic.claude-v1:0"


def client(route="plain", **more):
    """A client that signs nothing: what Bedrock calls an API key needs TLS, which the tests do without."""
    config = Config(retries={"total_max_attempts": 1}, signature_version=more.pop("signature", UNSIGNED))
    return boto3.client(
        "bedrock-runtime", region_name="eu-west-1", endpoint_url=f"{BASE}/{route}", config=config, **more)


def signing(route="plain"):
    return client(route, signature="v4", aws_access_key_id="AKID", aws_secret_access_key="of nobody")


def user(text):
    return [{"role": "user", "content": [{"text": text}]}]


def converse(prompt, bedrock=None, model=MODEL):
    return (bedrock or client()).converse(modelId=model, messages=user(prompt))


def converse_text(prompt, bedrock=None):
    return converse(prompt, bedrock)["output"]["message"]["content"][0]["text"]


def converse_events(prompt, bedrock=None, model=MODEL):
    return list((bedrock or client()).converse_stream(modelId=model, messages=user(prompt))["stream"])


def converse_said(events):
    return "".join(event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event)


def invoke_body(prompt):
    return json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 99,
                       "messages": [{"role": "user", "content": prompt}]})


def invoke_events(prompt):
    stream = client().invoke_model_with_response_stream(modelId=MODEL, body=invoke_body(prompt))["body"]
    return [json.loads(event["chunk"]["bytes"]) for event in stream]


def invoke_said(events):
    return "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")


def refused(call, code, kind=ClientError):
    try:
        call()
    except kind as error:
        equal(error.response["Error"]["Code"], code)
        holds(github_token(5) not in str(error) and CARD not in str(error), "the error repeats the value")
        return error
    raise AssertionError(f"no {code} was raised")


def test_converse():
    answer = converse(SAY)
    equal(answer["output"]["message"]["content"], [{"text": PROSE}])
    equal((answer["stopReason"], answer["usage"]["totalTokens"]), ("end_turn", 10))


def test_converse_stream():
    events = converse_events(SAY)
    equal(converse_said(events), PROSE)
    equal([next(iter(event)) for event in events if "contentBlockDelta" not in event],
          ["messageStart", "contentBlockStop", "messageStop", "metadata"])


def test_invoke_model():
    answer = json.loads(client().invoke_model(modelId=MODEL, body=invoke_body(SAY))["body"].read())
    equal(answer["content"], [{"type": "text", "text": PROSE}])


def test_invoke_model_with_response_stream():
    events = invoke_events(SAY)
    equal((invoke_said(events), events[-1]["type"]), (PROSE, "message_stop"))


def test_redaction():
    redacted(converse_text(SAY_CARD))
    redacted(converse_said(converse_events(SAY_CARD)))
    redacted(invoke_said(invoke_events(SAY_CARD)))
    # And on the way there: the peer says what it was told.
    redacted(converse_text(f"card {CARD} thanks"))


def test_redaction_of_a_tool_call():
    start, *rest = [event for event in converse_events("weather, say: card {card} thanks", model="tool")
                    if "contentBlockStart" in event or "contentBlockDelta" in event]
    equal(start["contentBlockStart"]["start"]["toolUse"]["name"], "weather")
    written = "".join(event["contentBlockDelta"]["delta"]["toolUse"]["input"] for event in rest)
    redacted(json.loads(written)["city"])
    answer = converse("weather, say: card {card} thanks", model="tool")
    redacted(answer["output"]["message"]["content"][0]["toolUse"]["input"]["city"])


def test_a_blocked_request_is_bedrocks_own_exception():
    bedrock = client()
    error = refused(lambda: converse(LEAK, bedrock), "AccessDeniedException", bedrock.exceptions.AccessDeniedException)
    holds("github_token" in str(error), "the message does not say what was found")
    refused(lambda: converse_events(LEAK), "AccessDeniedException")
    refused(lambda: converse(SAY_SECRET), "AccessDeniedException")


def test_a_blocked_stream_is_bedrocks_own_exception():
    for events in (converse_events, invoke_events):
        error = refused(lambda: events(SAY_SECRET), "validationException", EventStreamError)
        holds("github_token" in str(error), "the message does not say what was found")


def test_a_body_that_its_caller_signed_is_not_changed():
    bedrock = signing()
    equal(converse_text(SAY, bedrock), PROSE)
    error = refused(lambda: converse_text(f"card {CARD} thanks", bedrock), "AccessDeniedException")
    holds("signature covers the body" in str(error), f"something else was refused: {error}")


def with_key(bedrock, key=KEY):
    """Lets a client present a key of the gateway beside whatever it signs."""
    bedrock.meta.events.register("before-send.*", lambda request, **_: request.headers.update({"x-api-token": key}))
    return bedrock


def test_a_route_with_credentials_signs_what_leaves():
    # What answers under /strict answers nothing but the credentials' own signature.
    refused(lambda: converse(SAY, client("strict")), "InvalidSignatureException")
    refused(lambda: converse(SAY, signing("strict")), "InvalidSignatureException")
    bedrock = with_key(client("signed"))
    equal(converse_text(SAY, bedrock), PROSE)
    redacted(converse_text(f"card {CARD} thanks", bedrock))
    equal(converse_said(converse_events(SAY, bedrock)), PROSE)


def test_nothing_is_signed_for_who_has_no_key():
    refused(lambda: converse(SAY, client("signed")), "AccessDeniedException")
    refused(lambda: converse(SAY, signing("signed")), "AccessDeniedException")
    refused(lambda: converse(SAY, with_key(client("signed"), "pk_of_nobody")), "AccessDeniedException")
    # A signature of one's own beside the key is one credential too many.
    refused(lambda: converse(SAY, with_key(signing("signed"))), "AccessDeniedException")


if __name__ == "__main__":
    sys.exit(harness.run(sys.modules[__name__], False))
