#!/bin/sh
# The routes to two balancers that have one address, on a Linux router in front of them (as root), where no routing daemon
# sets them: `routes.sh 1 2` while both answer, `routes.sh 1` or `routes.sh 2` while one does. Whoever runs it must know
# which; bird.conf and bird-router.conf do all of that by themselves.
set -eu

common=192.0.2.10/32                # of both
own_1=192.0.2.11/32                 # where the first asks nodes from
own_2=192.0.2.12/32
machine_1=198.51.100.1              # the machines, on the network of this router
machine_2=198.51.100.2

# By addresses and ports: messages of one connection, and what is repeated, go one way.
sysctl -qw net.ipv4.fib_multipath_hash_policy=1

case "$*" in
"1 2")
	ip route replace "$common" nexthop via "$machine_1" nexthop via "$machine_2"
	ip route replace "$own_1" via "$machine_1"
	ip route replace "$own_2" via "$machine_2"
	;;
1 | 2)
	# Who is left has the other one's address as well: nodes still answer to it.
	left=$machine_1
	[ "$1" = 1 ] || left=$machine_2
	for address in "$common" "$own_1" "$own_2"; do
		ip route replace "$address" via "$left"
	done
	;;
*)
	echo "usage: routes.sh 1 2 | 1 | 2" >&2
	exit 2
	;;
esac
