#!/usr/bin/env bash
# The experiment of the same name in a guest with 1G of memory, the same for all transports.
#
#     lab/papers/001-front-end.sh PROGRAM FOLDER [OPTION...]
set -eu
here=$(dirname "$0")
exec "$here/../../verify/uml/lab.sh" -m 1G -b "$1" "$here/001-front-end.toml" --out "$2" "${@:3}"
