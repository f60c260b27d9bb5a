#!/usr/bin/env bash
# The experiment of the same name in a guest with 3G of memory: client and server have 50,000 associations each.
#
#     lab/papers/001-sctp.sh PROGRAM FOLDER [OPTION...]
set -eu
here=$(dirname "$0")
exec "$here/../../verify/uml/lab.sh" -m 3G -b "$1" "$here/001-sctp.toml" --out "$2" "${@:3}"
