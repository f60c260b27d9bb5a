#!/usr/bin/env bash
# Make the Debian package of a built program, and one with its debugging symbols.
#
#   deploy/deb.sh PROGRAM [FOLDER [VERSION]]     default: target/deb, that of Cargo.toml
#
# Writes the packages into FOLDER. The same commit and program give the same bytes. Needs no root.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath -e "${1:?usage: deploy/deb.sh PROGRAM [FOLDER [VERSION]]}")
out=${2:-target/deb}
version=${3:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)}
fail() { printf 'deb: %s\n' "$*" >&2; exit 1; }
for tool in dpkg-buildpackage dh; do
    command -v "$tool" >/dev/null || fail "there is no $tool: apt-get install dpkg-dev debhelper"
done

mkdir -p "$out"
out=$(realpath "$out")
work=$out/strowger-$version
rm -rf "$work"
mkdir -p "$work/completions" "$work/examples"
cp -r deploy/debian "$work/"
cp README.md "$work/"
cp deploy/strowger.toml deploy/balance.conf deploy/sysctl.conf "$work/examples/"
cp deploy/packaged.toml "$work/strowger.toml"
cp "$program" "$work/strowger"
"$program" completions bash >"$work/completions/strowger"
"$program" completions zsh >"$work/completions/_strowger"
"$program" completions fish >"$work/completions/strowger.fish"
"$program" manual "$work/manual"
# The comment above the first section is for a manual installation.
sed -n '/^\[Unit\]/,$p' deploy/strowger.service | sed 's,/usr/local/bin/,/usr/bin/,' >"$work/debian/strowger.service"

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
cat >"$work/debian/changelog" <<CHANGES
strowger ($version) unstable; urgency=medium

  * Built from $(git rev-parse --short=12 HEAD). CHANGELOG.md of the source has what changed.

 -- $(sed -n 's/^Maintainer: //p' deploy/debian/control)  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
CHANGES

cd "$work"
dpkg-buildpackage --build=binary --no-sign --no-check-builddeps >"$out/build.log" 2>&1 ||
    { tail -n 20 "$out/build.log" >&2; fail "dpkg-buildpackage failed; its whole output is in $out/build.log"; }
cd "$out"
rm -r "$work"
ls "$out"/strowger*_"$version"_*.deb
