"""PyPI's `oidc-provider-mock`, which insists on a nonce, for as long as standard input is open. Prints where it is."""

import logging
import sys

from oidc_provider_mock import User, run_server_in_thread

logging.getLogger("werkzeug").setLevel(logging.ERROR)
ADA = User(sub="ada", claims={"email": "ada@people.example", "groups": ["gate-auditors"]})
with run_server_in_thread(require_nonce=True, user_claims=[ADA]) as server:
    print(f"http://localhost:{server.server_port}", flush=True)
    sys.stdin.read()
