#!/usr/bin/env bash
# Run an experiment that needs SCTP, or a kernel of its own, in user-mode Linux.
#
#   verify/uml/lab.sh [-b BINARY] [-m MEMORY] [-t SECONDS] FILE [OPTION ...]
#
# BINARY is strowger [default: the release build], MEMORY that of the guest [default: 3G], SECONDS the limit [default:
# 3600]. Options are those of `strowger lab run`. Results are where `lab run` leaves them; on a file of an earlier run
# it goes on. The guest has the settings of Ono and Schulzrinne's measurements: an MTU of Ethernet, no heartbeats of
# SCTP, and buffers for each association.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
binary=${CARGO_TARGET_DIR:-$here/../../target}/release/strowger
memory=3G
seconds=3600
while getopts b:m:t: option; do
    case $option in
    b) binary=$OPTARG ;;
    m) memory=$OPTARG ;;
    t) seconds=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ -x "$binary" ] || { printf 'lab.sh: no %s: build it, or name one with -b\n' "$binary" >&2; exit 2; }

# shellcheck disable=SC2016  # the guest expands it
exec "$here/run.sh" -t "$seconds" -m "$memory" bash -c '
ip link set lo mtu 1500
modprobe -d /run/kernel -C /run/kernel sctp
sysctl -q net.sctp.hb_interval=86400000 net.sctp.rcvbuf_policy=1 net.sctp.sndbuf_policy=1
sysctl -q net.core.rmem_max=8388608 net.core.wmem_max=8388608 net.core.somaxconn=4096 net.core.netdev_max_backlog=100000
ulimit -n 1000000
exec "$0" lab run "$@"
' "$binary" "$@"
