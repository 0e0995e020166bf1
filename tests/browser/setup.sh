#!/usr/bin/env bash
# Installs what the tests with a browser need, in fixed versions, under target/browser: three identity providers
# (two from the npm registry, one from PyPI) and what drives Chromium. Does nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/browser
there=$PWD/target/browser

wanted=$(cat $here/requirements.txt $here/package.json $here/setup.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$there/installed" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

# Brings a new enough Node.
tests/clients/setup.sh
mkdir -p "$there/node"
"$there/venv/bin/python" -m pip --version > /dev/null 2>&1 || python3 -m venv --clear "$there/venv"
PIP_CACHE_DIR="$there/pip-cache" PIP_DISABLE_PIP_VERSION_CHECK=1 \
  "$there/venv/bin/python" -m pip install --quiet --requirement $here/requirements.txt
cp $here/package.json "$there/node/package.json"
npm_config_cache="$there/npm-cache" npm_config_update_notifier=false PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 \
  npm install --prefix "$there/node" --no-audit --no-fund --loglevel=error > /dev/null
echo "$wanted" > "$there/installed"
