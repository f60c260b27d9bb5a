#!/usr/bin/env bash
# Make a folder with a minimal Debian system, of the suite of this machine.
#
#   verify/debian_root.sh ROOT [PACKAGE,...]
#
# Packages come from where those of this machine come from. A ROOT that is whole is left alone. Needs root.
set -euo pipefail
root=${1:?usage: verify/debian_root.sh ROOT [PACKAGE,...]}
packages=${2:-}

say() { printf 'debian: %s\n' "$*" >&2; }
fail() { say "$*" && exit 1; }

[ "$(id -u)" = 0 ] || fail "run it as root: it makes the files of a system"
mkdir -p "$root"
root=$(realpath "$root")
[ ! -e "$root/.whole" ] || exit 0
if ! command -v debootstrap >/dev/null; then
    say "apt-get install debootstrap"
    apt-get update -qq >/dev/null
    apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
fi

suite=$(. /etc/os-release && printf %s "${VERSION_CODENAME:?this system has no code name of a Debian suite}")
# shellcheck disable=SC2016 # apt-get replaces these names itself.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" | head -n 1)
[ -n "$mirror" ] || fail "apt-get knows no package list of $suite: run apt-get update"

say "debootstrap $suite into $root"
debootstrap --variant=minbase ${packages:+--include=$packages} "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
    fail "debootstrap failed; its last words are in $root.log"
# What this network needs: sources, names, certificates.
mkdir -p "$root/etc/ssl/certs"
rm -f "$root/etc/apt/sources.list"
cp -r /etc/apt/sources.list* /etc/apt/apt.conf.d "$root/etc/apt/"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
touch "$root/.whole"
