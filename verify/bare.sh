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
verify/debian_root.sh "$root" make,git,ca-certificates
root=$(realpath "$root")

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
