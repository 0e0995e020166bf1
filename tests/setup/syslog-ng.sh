#!/usr/bin/env bash
# Unpacks Debian's syslog-ng into a folder: it is a second receiver in the tests, and cannot be installed beside rsyslog.
set -euo pipefail

folder=${1:?a folder}
[ -x "$folder/usr/sbin/syslog-ng" ] && exit 0
command -v syslog-ng > /dev/null && exit 0
if ! command -v apt-get > /dev/null; then
  echo "syslog-ng.sh: this is not Debian; the tests with syslog-ng are left out" >&2
  exit 0
fi
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
# With what it needs and is not there.
names=(syslog-ng-core)
for library in libivykis0 libnet1 libpcre3 libwrap0; do
  dpkg-query -W -f '${Status}' "$library" 2> /dev/null | grep -q ' installed$' || names+=("$library")
done
(cd "$packages" && apt-get -qq download "${names[@]}" 2> log) || { cat "$packages/log" >&2; exit 1; }
mkdir -p "$folder"
for package in "$packages"/*.deb; do dpkg -x "$package" "$folder"; done
