#!/bin/sh
# The addresses of strowger.toml, on loopback of a balancer's machine (as root, before the balancer starts).
set -eu
for address in 192.0.2.10/32 192.0.2.11/32 192.0.2.12/32; do
	ip address replace "$address" dev lo
done
