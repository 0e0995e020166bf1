#!/usr/bin/env bash
# Judges the packages of a built program: lintian, a fresh Debian 12 in a folder (installed, run, upgraded, purged),
# the Kubernetes manifests against their schemas, the unit. Needs root, for the folder.
#   PROFILE=release  which build to take (dev: the one tests use)
set -euo pipefail
cd "$(dirname "$0")/../.."

export PROFILE=${PROFILE:-release}
out=target/package
root=$PWD/$out/root
rm -f "$out"/*.deb
conf/deploy/package.sh > /dev/null
first=$(echo "$out"/portcullis_*.deb)
echo "made $(basename "$first")"

grep -Eq 'pkg:deb/debian/lib(vector|hyper)scan5@' "$out/portcullis.cdx.json"
! grep -q 'pkg:cargo/serde_derive@' "$out/portcullis.cdx.json" || { echo "the compiler's part is listed" >&2; exit 1; }
echo "ok   list of what is inside"

lintian --allow-root --fail-on error "$first"
echo "ok   lintian"

if [ ! -x "$out/venv/bin/kubernetes-validate" ]; then
  python3 -m venv "$out/venv"
  "$out/venv/bin/pip" install --quiet kubernetes-validate==1.37.0
fi
"$out/venv/bin/kubernetes-validate" --strict conf/deploy/kubernetes/*.yaml > /dev/null
echo "ok   kubernetes manifests"

if [ ! -f "$out/debian.tar" ]; then
  debootstrap --variant=minbase bookworm "$root" > "$out/debootstrap.log"
  tar -C "$root" -cf "$out/debian.tar" .
fi
rm -rf "$root"
mkdir "$root"
tar -C "$root" -xf "$out/debian.tar"
running=
trap '[ -z "$running" ] || kill "$running" 2> /dev/null || true; rm -rf "$root"' EXIT
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
cp /etc/resolv.conf "$root/etc/resolv.conf"
install_package() { # install_package FILE
  cp "$1" "$root/tmp/portcullis.deb"
  inside apt-get -qq -y -o Dpkg::Options::=--force-confold install /tmp/portcullis.deb > "$out/apt.log" 2>&1 ||
    { cat "$out/apt.log"; exit 1; }
}
inside apt-get -qq update
install_package "$first"
inside getent passwd portcullis > /dev/null
inside portcullis check --config /etc/portcullis/gateway.toml
inside sh -c 'test -s /usr/share/man/man1/portcullis.1.gz || grep -rq path-exclude /etc/dpkg'
echo "ok   installed"

# As the unit does, without systemd.
inside install -d -o portcullis -g portcullis -m 0700 /var/lib/portcullis
chroot --userspec=portcullis:portcullis "$root" env PATH=/usr/bin \
  PORTCULLIS__PROXY__LISTEN=127.0.0.1:0 PORTCULLIS__ADMIN__LISTEN=127.0.0.1:0 PORTCULLIS__PROXY__SHUTDOWN_NOTICE_MS=0 \
  portcullis run --config /etc/portcullis/gateway.toml --ready-file /var/lib/portcullis/ready.json \
  > "$out/run.log" 2>&1 &
running=$!
for _ in $(seq 600); do [ -f "$root/var/lib/portcullis/ready.json" ] && break; sleep 0.2; done
address=$(python3 -c "import json, sys; print(json.load(open(sys.argv[1]))['proxy'])" "$root/var/lib/portcullis/ready.json")
curl --fail --silent "http://$address/ready" > /dev/null
# By an administrator, who has nothing but the configuration.
inside portcullis backup --config /etc/portcullis/gateway.toml /tmp/first.backup > /dev/null
inside portcullis restore /tmp/first.backup --into /tmp/restored > /dev/null
inside test -s /tmp/restored/node.secret
# What it finds of this machine is not of the package: only that it looks where the gateway is.
inside portcullis doctor --config /etc/portcullis/gateway.toml --offline > "$out/doctor.log" || true
grep -q '/var/lib/portcullis is in use: a gateway runs on it' "$out/doctor.log" ||
  { cat "$out/doctor.log"; exit 1; }
echo "ok   backup and doctor, beside the one that runs"
kill -TERM "$running"
wait "$running"
running=
echo "ok   runs, and ends when it is asked to"

echo "# mine" >> "$root/etc/portcullis/gateway.toml"
cargo deb --quiet --no-build --profile "$PROFILE" --deb-revision 2 --output "$out/" > /dev/null
install_package "$(echo "$out"/portcullis_*-2_*.deb)"
[ "$(tail -n 1 "$root/etc/portcullis/gateway.toml")" = "# mine" ]
inside dpkg -s portcullis | grep -q '^Version: .*-2$'
echo "ok   upgraded, the configuration kept"

inside apt-get -qq -y purge portcullis > "$out/apt.log" 2>&1 || { cat "$out/apt.log"; exit 1; }
[ ! -e "$root/etc/portcullis" ] && [ ! -e "$root/usr/bin/portcullis" ]
[ -e "$root/var/lib/portcullis/audit" ]
echo "ok   purged, the audit log kept"
