#!/usr/bin/env bash
# Runs the official provider SDKs against a gateway, or with --direct against the sample provider.
#
#   tests/clients/run.sh BASE_URL [--direct]
#
# Prints `N passed, N failed` over all of them; the exit code says whether all passed.
set -euo pipefail
base=${1:?usage: run.sh BASE_URL [--direct]}
shift
cd "$(dirname "$0")/../.."
tests/clients/setup.sh

passed=0
failed=0
# A client that dies before its last line counts as one failure.
count() {
  local line
  line=$("$@" | tail -n 1) || true
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  else
    failed=$((failed + 1))
  fi
}

export CLIENTS_NODE=$PWD/target/clients/node PYTHONDONTWRITEBYTECODE=1
count target/clients/venv/bin/python tests/clients/clients.py "$base" "$@"
count target/clients/bin/node tests/clients/clients.mjs "$base" "$@"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
