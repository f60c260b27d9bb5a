#!/usr/bin/env bash
# Run a program inside user-mode Linux, whose kernel has SCTP and networks of its own.
#
#   verify/uml/run.sh [-t SECONDS] [-m MEMORY] PROGRAM [ARGUMENT ...]
#
# The guest shares this machine's files and the working folder. It is root, has an empty /run, TMPDIR=/run/tmp, and the
# loopback interface. Environment variables whose names begin with STROWGER_ are passed on. The output is that of the
# program, after its end, and so is the exit status; 124: it took longer than SECONDS [default: 120], 125: no guest came
# up. MEMORY is that of the guest [default: 512M]. It boots in about two seconds and needs no privileges, but Debian's
# user-mode-linux, kmod and a C compiler.
set -euo pipefail

seconds=120
memory=512M
while getopts t:m: option; do
    case $option in
    t) seconds=$OPTARG ;;
    m) memory=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }

fail() { printf 'uml: %s\n' "$*" >&2; exit 125; }
here=$(cd "$(dirname "$0")" && pwd)
linux=$(command -v linux.uml) || fail "there is no linux.uml: apt-get install user-mode-linux"
PATH="$PATH:/usr/sbin:/sbin" command -v modprobe >/dev/null || fail "there is no modprobe: apt-get install kmod"
modules=/usr/lib/uml/modules
[ -d "$modules" ] || fail "there is no $modules: apt-get install user-mode-linux"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -shared -fPIC -o "$work/xsave.so" "$here/xsave.c" || fail "cannot build $here/xsave.c"

{
    printf '#!/bin/bash\nPATH=%q:/usr/sbin:/sbin; export PATH\n' "$PATH"
    env -0 | while IFS='=' read -r -d '' name value; do
        case $name in STROWGER_* | HOME | LANG) printf 'export %s=%q\n' "$name" "$value" ;; esac
    done
    cat <<INIT
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /run
mkdir /run/tmp
export TMPDIR=/run/tmp
ip link set lo up
# The kernel asks for modules by itself, as for SCTP when the first socket is made. This machine may forbid some.
mkdir -p /run/kernel/lib
ln -s $modules /run/kernel/lib/modules
printf '#!/bin/sh\nexec modprobe -d /run/kernel -C /run/kernel "\$@"\n' >/run/modprobe
chmod +x /run/modprobe
echo /run/modprobe >/proc/sys/kernel/modprobe
cd $(printf %q "$PWD")
ulimit -n 65536
$(printf '%q ' "$@") >$(printf %q "$work/out") 2>&1 </dev/null
echo \$? >$(printf %q "$work/status")
sync
echo o >/proc/sysrq-trigger
sleep 60
INIT
} >"$work/init"
chmod +x "$work/init"

rc=0
LD_PRELOAD="$work/xsave.so" timeout --kill-after 5 "$seconds" "$linux" mem="$memory" slab_nomerge rootfstype=hostfs root=/dev/root \
    rootflags=/ rw init="$work/init" con=null con0=fd:0,fd:1 uml_dir="$work/" quiet \
    </dev/null >"$work/console" 2>&1 || rc=$?
[ ! -e "$work/out" ] || cat "$work/out"
[ ! -s "$work/status" ] || exit "$(cat "$work/status")"
[ "$rc" != 124 ] && [ "$rc" != 137 ] || { printf 'uml: ended after %s s\n' "$seconds" >&2; exit 124; }
cat "$work/console" >&2
fail "the guest ended with status $rc"
