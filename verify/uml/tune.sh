#!/usr/bin/env bash
# `strowger tune` on a whole machine, across a boot: settings that no network namespace has. Boots user-mode Linux twice.
#
#   verify/uml/tune.sh BINARY
#
# The first boot plants faults, has them found, and applies the changes. The second one reads the file of settings as a
# boot does, verifies, and undoes everything to the byte.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if [ "${1-}" != inside ]; then
    binary=$(realpath "$1")
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/sysctl.d" "$work/unit.d"
    for boot in first second; do
        "$here/run.sh" -t 240 "$0" inside "$boot" "$binary" "$work" || { echo "the $boot boot failed"; exit 1; }
    done
    exit 0
fi

boot=$2 strowger=$3 work=$4
# The guest shares the files of the machine: these folders are its own.
mount --bind "$work/sysctl.d" /etc/sysctl.d
mount --bind "$work/unit.d" /etc/systemd/system
[ ! -e /etc/sysctl.conf ] || mount --bind /dev/null /etc/sysctl.conf
mkdir -p /run/none
for folder in /usr/local/lib/sysctl.d /usr/lib/sysctl.d; do
    [ ! -d "$folder" ] || mount --bind /run/none "$folder"
done

names="net/core/rmem_max net/core/wmem_max net/core/rmem_default net/core/somaxconn net/core/netdev_max_backlog
    net/ipv4/udp_mem net/ipv4/tcp_mem net/ipv4/tcp_rmem net/ipv4/tcp_max_syn_backlog net/ipv4/tcp_syncookies net/ipv4/tcp_max_orphans
    net/ipv4/tcp_keepalive_time net/ipv4/tcp_timestamps net/ipv4/ip_local_reserved_ports fs/nr_open"
values() { for name in $names; do echo "$name"; cat "/proc/sys/$name"; done; find /etc/sysctl.d /etc/systemd/system; }
must() { grep -qF -- "$1" /run/said || { echo "MISSING: $1"; cat /run/said; exit 1; }; }
status() { local wanted=$1 got=0; shift; "$@" >/run/said 2>&1 || got=$?
    [ "$got" = "$wanted" ] || { echo "EXIT $got, not $wanted: $*"; cat /run/said; exit 1; }; }
tune() { "$strowger" tune "$@" --journal "/run/journal/lasting"; }
once() { "$strowger" tune "$@" --journal "/run/journal/once"; }

# Between the boots the journals are in the folder of the host, where files belong to its user, not to root.
if [ "$boot" = first ]; then
    plant() { echo "$2" >"/proc/sys/$1"; }
    plant net/core/rmem_max 212992
    plant net/core/rmem_default 26214400
    plant net/core/somaxconn 128
    plant net/core/netdev_max_backlog 300000
    plant net/ipv4/udp_mem "19257652 19257652 19257652"
    plant net/ipv4/tcp_mem "19257652 19257652 19257652"
    plant net/ipv4/tcp_rmem "4096 8388608 16777216"
    plant net/ipv4/tcp_max_syn_backlog 128
    plant net/ipv4/tcp_syncookies 0
    plant net/ipv4/tcp_max_orphans 128
    plant net/ipv4/tcp_timestamps 0
    plant net/ipv4/ip_local_port_range "1024 65535"
    plant fs/nr_open 4096
    plant net/ipv4/tcp_keepalive_time 14400
    values >"$work/before"
    status 1 tune
    for fault in "receive buffers are limited to 208 KiB" "net.core.rmem_default is 25 MiB" "somaxconn allows 128" \
        "lets 300,000 packets wait" "udp_mem allows datagrams to take 73.5 GiB" "tcp_mem allows TCP connections to take" \
        "tcp_rmem starts each connection with 8 MiB" "tcp_max_syn_backlog allows 128" "tcp_max_orphans is 128" \
        "tcp_syncookies is 0" "tcp_timestamps is 0" "may take the SIP ports 5060, 5061" "fs.nr_open is 4096" "for 240 minutes"; do
        must "$fault"
    done
    values | diff "$work/before" - || { echo "a report changed something"; exit 1; }
    # Nothing of a container or namespace is in the way here.
    ! grep -q "^UNSEEN" /run/said || { cat /run/said; exit 1; }
    status 0 once apply --until-reboot tcp_keepalive
    status 0 tune apply
    must "changed  /etc/sysctl.d/90-strowger-tune.conf"
    status 0 tune verify
    ! grep -v "^kept" /run/said || exit 1
    cp -r /run/journal "$work/saved"
else
    mkdir /run/journal
    cat "$work/saved/lasting" >/run/journal/lasting
    cat "$work/saved/once" >/run/journal/once
    grep -q "net.core.somaxconn = 4096" /etc/sysctl.d/90-strowger-tune.conf
    # What systemd-sysctl does at a boot.
    sysctl -q -p /etc/sysctl.d/90-strowger-tune.conf
    status 0 tune verify
    ! grep -v "^kept" /run/said || exit 1
    status 1 once verify
    must "net.ipv4.tcp_keepalive_time: 7200, not 900 as applied: the machine started anew, and --until-reboot said so"
    status 0 tune undo
    must "restored net.core.rmem_max: 212992"
    # Another value than before and than applied: it is left.
    status 1 once undo
    must "left     net.ipv4.tcp_keepalive_time: 7200, not 900 as applied and the machine started anew since"
    must "it was 14400 before"
    echo 14400 >/proc/sys/net/ipv4/tcp_keepalive_time
    values | diff "$work/before" - || { echo "undo did not restore everything"; exit 1; }
    [ ! -e "/run/journal/lasting" ] || { echo "the journal is left"; exit 1; }
    echo "tune: found, applied, kept over a boot, undone to the byte"
fi
