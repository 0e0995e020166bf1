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
python3 conf/deploy/sbom.py > "$out/portcullis.cdx.json"

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

root=$out/debian
arch=$(dpkg --print-architecture)
rm -rf "$root"
put() { install -D -m "$1" "$2" "$root/$3"; } # put MODE FILE PATH
put 755 "$binary" usr/bin/portcullis
strip --strip-unneeded "$root/usr/bin/portcullis"
put 644 conf/gateway.toml etc/portcullis/gateway.toml
put 644 conf/deploy/portcullis.service lib/systemd/system/portcullis.service
put 644 conf/deploy/debian/sysusers.conf usr/lib/sysusers.d/portcullis.conf
put 644 conf/deploy/debian/copyright usr/share/doc/portcullis/copyright
put 644 conf/deploy/portcullis.socket usr/share/doc/portcullis/examples/portcullis.socket
put 644 conf/deploy/grafana/portcullis.json usr/share/doc/portcullis/examples/grafana/portcullis.json
for file in conf/deploy/prometheus/*.yml; do
  put 644 "$file" "usr/share/doc/portcullis/examples/prometheus/$(basename "$file")"
done
put 644 "$out/portcullis.1.gz" usr/share/man/man1/portcullis.1.gz
put 644 "$out/portcullis.bash" usr/share/bash-completion/completions/portcullis
put 644 "$out/_portcullis" usr/share/zsh/vendor-completions/_portcullis
put 644 "$out/portcullis.fish" usr/share/fish/vendor_completions.d/portcullis.fish
gzip -9n < conf/deploy/debian/changelog > "$out/changelog.gz"
put 644 "$out/changelog.gz" usr/share/doc/portcullis/changelog.Debian.gz
for script in postinst prerm postrm; do put 755 "conf/deploy/debian/$script" "DEBIAN/$script"; done
echo /etc/portcullis/gateway.toml > "$root/DEBIAN/conffiles"
libraries=$(ldd "$binary" | awk '/=> \// { print $3 }' | xargs -n1 readlink -f | xargs -n1 basename)
depends=$(for library in $libraries; do dpkg -S "*/$library" | head -1 | cut -d: -f1; done | sort -u | paste -sd, | sed 's/,/, /g')
cat > "$root/DEBIAN/control" <<CONTROL
Package: portcullis
Version: $version-${REVISION:-1}
Architecture: $arch
Maintainer: The Portcullis authors <authors@portcullis.invalid>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends, ca-certificates, adduser
Section: net
Priority: optional
Homepage: https://portcullis.invalid
Description: security gateway for AI traffic
 Portcullis stands between applications and the providers of their language
 models, reads every body in both directions, streams included, and lets go
 what a policy allows: secrets, personal data and injections are blocked,
 redacted or reported, and every exchange is recorded.
CONTROL
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) > "$out/md5sums"
install -m 644 "$out/md5sums" "$root/DEBIAN/md5sums"
dpkg-deb --root-owner-group -Zxz -z6 --build "$root" "$out/portcullis_$version-${REVISION:-1}_$arch.deb" > /dev/null
rm -rf "$root" "$out/md5sums" "$out/changelog.gz"
ls -1 "$out"/*.deb "$out"/*.tar.gz "$out"/*.json
