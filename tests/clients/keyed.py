"""Official Python clients with keys of the gateway, in every place they can put one, with `keyed_peer.py` behind it.

Usage: keyed.py BASE_URL KEY. Each provider takes its own key only, in its own place, and no other credential beside it.
"""

import sys

import anthropic
import openai
from google import genai
from google.genai import types as genai_types
from websockets.sync.client import connect

import harness
from harness import equal

BASE, KEY = sys.argv[1].rstrip("/"), sys.argv[2]
HELLO = [{"role": "user", "content": "hello"}]
BEARER = {"authorization": "Bearer " + KEY}


def anthropic_says(route="anthropic", **more):
    client = anthropic.Anthropic(base_url=f"{BASE}/{route}", max_retries=0, **more)
    equal([model.id for model in client.models.list().data], ["m"])
    return client.messages.create(model="m", max_tokens=9, messages=HELLO).content[0].text


def test_anthropic_with_an_api_key():
    equal(anthropic_says(api_key=KEY), "hello")


def test_anthropic_with_a_token():
    equal(anthropic_says(auth_token=KEY), "hello")


def test_anthropic_with_both():
    equal(anthropic_says(auth_token=KEY, default_headers={"x-api-key": KEY}), "hello")


def test_anthropic_behind_a_route_with_a_token_of_oauth():
    equal(anthropic_says("oauth", api_key=KEY), "hello")
    equal(anthropic_says("oauth", auth_token=KEY), "hello")


def test_openai():
    client = openai.OpenAI(base_url=BASE + "/openai/v1", api_key=KEY, max_retries=0)
    equal(client.chat.completions.create(model="m", messages=HELLO).choices[0].message.content, "hello")
    equal([model.id for model in client.models.list().data], ["m"])


def test_openai_as_a_page_shows_its_key():
    protocols = ["realtime", "openai-insecure-api-key." + KEY, "openai-beta.realtime-v1"]
    url = BASE.replace("http://", "ws://") + "/openai/v1/realtime?model=m"
    with connect(url, subprotocols=protocols) as socket:
        equal(socket.subprotocol, "realtime")


def gemini_says(**more):
    options = genai_types.HttpOptions(base_url=BASE + "/google", **more)
    client = genai.Client(api_key=KEY, http_options=options)
    return client.models.generate_content(model="m", contents="hello").text


def test_google():
    equal(gemini_says(), "hello")


def test_google_with_both():
    equal(gemini_says(headers=BEARER), "hello")


if __name__ == "__main__":
    sys.exit(harness.run(sys.modules[__name__], False))
