#!/usr/bin/env bash
# The experiment of the same name in a guest with 256M of memory, which the server fills.
#
#     lab/papers/001-most.sh PROGRAM FOLDER [OPTION...]
set -eu
here=$(dirname "$0")
exec "$here/../../verify/uml/lab.sh" -m 256M -b "$1" "$here/001-most.toml" --out "$2" "${@:3}"
