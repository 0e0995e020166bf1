#!/usr/bin/env bash
# Holds a running gateway against its own API document: document.sh BASE_URL KEY [ARGUMENT...]
# Asks every operation for what the document says and for what it does not, and takes no answer that is a 5xx, has a status,
# media type or body that the document does not know, lets wrong data or a wrong credential pass, or answers a method
# that is not there. (That data which fits the schema is taken is not asked: a schema does not say which ids are there.)
set -euo pipefail
base=$1 key=$2
shift 2
here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$(mktemp -d)"
exec "$here/target/clients/document/bin/schemathesis" run "$base/openapi.json" --header "X-API-Key: $key" \
  --exclude-path /api/v1/audit/stream --exclude-checks positive_data_acceptance \
  --phases examples,coverage,fuzzing --max-examples 10 --seed 1 --request-timeout 20 --no-color "$@"
