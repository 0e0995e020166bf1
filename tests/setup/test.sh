#!/usr/bin/env bash
# Runs every check there is, and says at the end how many tests passed and failed.
# A check that fails does not keep the later ones from running; all must pass.
set -euo pipefail
cd "$(dirname "$0")/../.."

passed=0
failed=0
logs=$PWD/target/test-logs
mkdir -p "$logs"

# A check has no tests to count: it is one that passes, or one that fails.
check() { # check NAME COMMAND...
  local name=$1 log
  log=$logs/${1// /-}.log
  shift
  if "$@" > "$log" 2>&1; then
    passed=$((passed + 1))
    echo "ok   $name"
  else
    failed=$((failed + 1))
    echo "FAIL $name"
    tail -n 200 "$log"
  fi
}

# Adds up what a test runner printed; when it stopped without a figure, that is one failure.
tests() { # tests NAME COMMAND...
  local name=$1 log code=0 ok bad
  log=$logs/${1// /-}.log
  shift
  "$@" > "$log" 2>&1 || code=$?
  # nextest: "12 passed, 1 failed"; cargo test: "ok. 12 passed; 1 failed", once a binary.
  ok=$(figures passed "$log")
  bad=$(($(figures failed "$log") + $(figures 'timed out' "$log")))
  if [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  if [ "$code" -eq 0 ] && [ "$ok" -eq 0 ]; then bad=1; fi
  passed=$((passed + ok))
  failed=$((failed + bad))
  if [ "$bad" -eq 0 ]; then
    echo "ok   $name ($ok tests)"
    sed -n 's/^ *FLAKY .*\] */flaky: /p' "$log"
  else
    echo "FAIL $name ($bad of $((ok + bad)) tests)"
    tail -n 400 "$log"
  fi
}

# Adds up the numbers before a word in the lines that sum up a run; 0 where there are none.
figures() { # figures WORD LOG
  { grep -E '^ +Summary |^test result:' "$2" || true; } | { grep -oE "[0-9]+ $1" || true; } |
    awk '{ sum += $1 } END { print sum + 0 }'
}

# What they install waits for the network, mostly: meanwhile the compiler works.
{ tests/clients/setup.sh && tests/browser/setup.sh; } > "$logs/installing.log" 2>&1 &
installing=$!

check "formatting" cargo fmt --check
check "lints" cargo clippy --locked --all-targets -- -D warnings
# Advisories are on the network: `make audit` asks for them too.
if cargo deny --version > /dev/null 2>&1; then
  check "licences and sources" cargo deny --config .deny.toml --log-level error check licenses bans sources
else
  echo "skip licences and sources: cargo-deny is not here, make audit installs it"
fi
if ! wait "$installing"; then
  failed=$((failed + 1))
  echo "FAIL installing the official SDKs and the identity providers"
  tail -n 200 "$logs/installing.log"
fi
if cargo nextest --version > /dev/null 2>&1; then
  # Much of what a test does is wait for somebody: two for each core keep it busy.
  tests "tests" cargo nextest run --locked --lib --bins --tests --no-fail-fast --color never --test-threads $(($(nproc) * 2))
else
  tests "tests" cargo test --locked --no-fail-fast --lib --bins --tests
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
