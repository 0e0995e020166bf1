"""Verifies an attestation with the deployment's published keys alone.

    verify_attestation.py JWKS_FILE ATTESTATION_FILE MOMENT

Written from RFC 7517, RFC 7638, RFC 8037 and the DSSE specification; shares no code with the gateway. Prints
`verified` or why not; the exit code says the same.
"""

import base64
import hashlib
import json
import sys
from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def refuse(reason):
    print(reason)
    sys.exit(1)


def unpadded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def key_of(jwks, keyid):
    for jwk in jwks["keys"]:
        if jwk["kid"] != keyid:
            continue
        members = {name: jwk[name] for name in ("crv", "kty", "x")}
        canonical = json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
        if unpadded(keyid) != hashlib.sha256(canonical).digest():
            refuse("the key is not named by its thumbprint")
        if (jwk["kty"], jwk["crv"], jwk["alg"], jwk["use"]) != ("OKP", "Ed25519", "EdDSA", "sig"):
            refuse("the key is not one for Ed25519 signatures")
        return Ed25519PublicKey.from_public_bytes(unpadded(jwk["x"]))
    refuse("no published key has that name")


def main(jwks_file, attestation_file, now):
    with open(jwks_file) as file:
        jwks = json.load(file)
    with open(attestation_file) as file:
        attestation = json.load(file)
    envelope = attestation["signature"]
    payload = base64.b64decode(envelope["payload"], validate=True)
    kind = envelope["payloadType"].encode()
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    for signature in envelope["signatures"]:
        key = key_of(jwks, signature["keyid"])
        try:
            key.verify(base64.b64decode(signature["sig"], validate=True), signed)
        except InvalidSignature:
            refuse("the signature is wrong")
    said = json.loads(payload)
    for name in ("id", "agent_id", "statements"):
        if said[name] != attestation[name]:
            refuse(f"{name} is not what was signed")
    for name in ("issued_at", "expires_at"):
        if moment(said[name]) != moment(attestation[name]):
            refuse(f"{name} is not what was signed")
    if not moment(said["issued_at"]) <= moment(now) < moment(said["expires_at"]):
        refuse("it does not count at that moment")
    print("verified")


main(*sys.argv[1:])
