#!/usr/bin/env bash
# Makes the packages of a built program below target/package: .deb, tarball, and the list of what is inside (SBOM).
#   PROFILE=release  which build to take; it must be there (cargo build --locked --profile PROFILE)
set -euo pipefail
cd "$(dirname "$0")/../.."

profile=${PROFILE:-release}
folder=$profile
[ "$profile" != dev ] || folder=debug
binary=target/$folder/portcullis
[ -x "$binary" ] || { echo "build first: $binary is missing" >&2; exit 1; }
out=target/package
mkdir -p "$out"

"$binary" man | gzip -9n > "$out/portcullis.1.gz"
"$binary" completions bash > "$out/portcullis.bash"
"$binary" completions zsh > "$out/_portcullis"
"$binary" completions fish > "$out/portcullis.fish"
python3 conf/deploy/sbom.py "$binary" > "$out/portcullis.cdx.json"

# The packaged configuration names the state directory, so that every command finds it, not the service alone.
sed '/^\[store\]$/,/^\[/ s|^path = "state"   *#|path = "/var/lib/portcullis"         #|' conf/gateway.toml > "$out/gateway.toml"
grep -q '^path = "/var/lib/portcullis" ' "$out/gateway.toml"

version=$("$binary" --version | cut -d' ' -f2)
tree=portcullis-$version
rm -rf "${out:?}/$tree"
mkdir -p "$out/$tree/deploy"
cp "$binary" README.md conf/gateway.toml "$out/portcullis.1.gz" "$out/portcullis.cdx.json" "$out/$tree/"
cp -r conf/deploy/{portcullis.service,portcullis.socket,grafana,prometheus,kubernetes} "$out/$tree/deploy/"
strip "$out/$tree/portcullis"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@"${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" \
  -C "$out" -c "$tree" | gzip -9n > "$out/$tree-$(uname -m)-linux.tar.gz"
rm -rf "${out:?}/$tree"

cargo deb --quiet --no-build --profile "$profile" --output "$out/" > /dev/null
ls -1 "$out"/*.deb "$out"/*.tar.gz "$out"/*.json
