#!/usr/bin/env bash
# Run a target of the Makefile on a Debian system that has nothing but make, git and certificates.
#
#   verify/bare.sh [TARGET [ROOT]]        default: test .cache/bare
#
# A minimal root goes to ROOT, the committed tree into it, and `make TARGET` runs there in a mount and a process
# namespace of its own. Packages come from where those of this machine come from. Needs root, 12 GB of disk and, for
# `test`, an hour. ROOT stays for a look; a second run uses it again. Remove it with `rm -r ROOT`.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-test}
root=${2:-.cache/bare}

say() { printf 'bare: %s\n' "$*" >&2; }
fail() { say "$*" && exit 1; }

[ "$(id -u)" = 0 ] || fail "run it as root: it mounts and changes its root"
if ! command -v debootstrap >/dev/null; then
    say "apt-get install debootstrap"
    apt-get update -qq >/dev/null
    apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
fi

suite=$(. /etc/os-release && printf %s "${VERSION_CODENAME:?this system has no code name of a Debian suite}")
# shellcheck disable=SC2016 # apt-get replaces these names itself.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" | head -n 1)
[ -n "$mirror" ] || fail "apt-get knows no package list of $suite: run apt-get update"

mkdir -p "$root"
root=$(realpath "$root")
if [ ! -e "$root/.whole" ]; then
    say "debootstrap $suite into $root"
    debootstrap --variant=minbase --include=make,git,ca-certificates "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
        fail "debootstrap failed; its last words are in $root.log"
    # What this network needs: sources, names, certificates.
    rm -f "$root/etc/apt/sources.list"
    cp -r /etc/apt/sources.list* /etc/apt/apt.conf.d "$root/etc/apt/"
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    touch "$root/.whole"
fi

say "clone the committed tree to $root/src"
rm -rf "$root/src"
git clone -q . "$root/src"

say "make $target"
inside='
mount --bind "$1" "$1" && cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
exec chroot . env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    make -C /src "$2"
'
unshare --mount --pid --fork --kill-child bash -euc "$inside" bare "$root" "$target"
