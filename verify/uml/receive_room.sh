#!/usr/bin/env bash
# What the limit of receive buffers costs while a server stands still: a benefit of `strowger tune`, measured.
#
#   verify/uml/run.sh -t 600 verify/uml/receive_room.sh BINARY [RUNS]
#
# In user-mode Linux, because the limit (net.core.rmem_max) is the machine's. `strowger balance` without CAP_NET_ADMIN
# carries 1,000 calls a second and is stopped for 400 ms. The limits of Linux and of `strowger tune` alternate. One line a
# run: the limit, datagrams that the kernel dropped, retransmissions of the caller, the longest answer to an INVITE in
# ms, and failed calls.
set -euo pipefail
strowger=$1 runs=${2:-5}
lost() { awk '/^Udp: [0-9]/ { print $6 }' /proc/net/snmp; }

cd "${TMPDIR:-/tmp}"
echo "limit lost again longest failed"
for run in $(seq "$runs"); do
    for limit in 212992 4194304; do
        echo "$limit" >/proc/sys/net/core/rmem_max
        "$strowger" load -sn uas -aa -i 127.0.0.1 -p 5081 >/dev/null 2>&1 &
        callee=$!
        setpriv --bounding-set=-all --inh-caps=-all "$strowger" balance --listen udp:127.0.0.1:5065 \
            --node sip:127.0.0.1:5081 --data-dir "data$run-$limit" --admin off >/dev/null 2>&1 &
        server=$!
        sleep 3
        before=$(lost)
        "$strowger" load -sn uac 127.0.0.1:5065 -i 127.0.0.1 -p 5090 -r 1000 -m 6000 --lateness 2000 >caller 2>&1 &
        caller=$!
        sleep 3
        kill -STOP "$server"
        sleep 0.4
        kill -CONT "$server"
        wait "$caller" || true
        again=$(sed -n 's/.* again \([0-9,]*\),.*/\1/p' caller | tail -n 1)
        longest=$(awk '$1 == "rtd-invite" { print $(NF - 1) }' caller)
        failed=$(awk '/^Calls failed/ { print $3 }' caller)
        echo "$limit $(($(lost) - before)) $again $longest $failed"
        kill "$server" "$callee"
        wait "$server" "$callee" 2>/dev/null || true
    done
done
