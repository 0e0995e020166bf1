#!/usr/bin/env bash
# Installs the Debian packages that are missing. Arguments name what they are for:
#   build    compiling the gateway        clients  running the official SDKs, and a browser
#   bench    the servers to compare with      package  making packages, and judging them
# Needs root, or sudo; needs neither when nothing is missing.
set -euo pipefail

missing=()
package=
syslog_ng=
need() { # need COMMAND PACKAGE
  command -v "$1" > /dev/null || missing+=("$2")
}

for purpose in "$@"; do
  case $purpose in
    build)
      need cc gcc
      need c++ g++
      need cmake cmake
      need pkg-config pkg-config
      if ! command -v pkg-config > /dev/null || ! pkg-config --exists libhs; then
        # Vectorscan is the maintained fork and runs on ARM too; see below for where there is none.
        missing+=(libvectorscan-dev)
      fi
      ;;
    clients)
      need curl curl
      python3 -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3-venv)
      need node nodejs
      need npm npm
      need promtool prometheus
      # Servers are started by the tests themselves, on ports and in directories of their own.
      [ -d /usr/lib/postgresql ] || missing+=(postgresql)
      need redis-server redis-server
      need systemd-analyze systemd
      [ -x /usr/sbin/rsyslogd ] || missing+=(rsyslog rsyslog-openssl)
      [ -x /usr/sbin/nats-server ] || need nats-server nats-server
      syslog_ng=1
      need chromium chromium
      need openssl openssl
      ;;
    bench)
      need python3 python3
      need nginx nginx
      ;;
    package)
      need python3 python3
      python3 -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3-venv)
      need curl curl
      need lintian lintian
      need debootstrap debootstrap
      package=1
      ;;
    *)
      echo "system.sh: nothing is known about '$purpose'" >&2
      exit 2
      ;;
  esac
done

if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get > /dev/null; then
    echo "Missing, and this is not Debian; please install: ${missing[*]}" >&2
    exit 1
  fi
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || { echo "Please install as root: ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
  fi
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y "$@" > "$log" 2>&1; }
  echo "Installing ${missing[*]}"
  if ! { apt update && apt install --no-install-recommends "${missing[@]}"; }; then
    # Where there is no Vectorscan, Intel's library takes its place.
    if ! apt install --no-install-recommends "${missing[@]/libvectorscan-dev/libhyperscan-dev}"; then
      cat "$log" >&2
      exit 1
    fi
  fi
fi

if [ -n "$syslog_ng" ]; then "$(dirname "$0")/syslog-ng.sh" "$(dirname "$0")/../../target/syslog-ng"; fi

if ! command -v cargo > /dev/null; then
  echo "Rust is missing: install it from https://rustup.rs, then run this again." >&2
  exit 1
fi

if [ -n "$package" ] && ! cargo deb --version > /dev/null 2>&1; then
  echo "Installing cargo-deb"
  cargo install --quiet --locked cargo-deb
fi
