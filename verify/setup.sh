#!/usr/bin/env bash
# Install what a step of the Makefile needs and the machine lacks.
#
#   verify/setup.sh build|test|bench
#
# Debian packages come by apt-get (as root, else through sudo), Python packages go into
# .cache/venv of this repository, Rust tools into cargo's bin folder. What is there already is left
# alone, so a second run does nothing. Each installation is announced before it starts.
set -euo pipefail
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive

say() { printf 'setup: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

sudo=()
if [ "$(id -u)" != 0 ] && have sudo; then sudo=(sudo); fi

# apt_for COMMAND PACKAGE ...: the packages whose command is missing, in one installation.
apt_for() {
    local missing=()
    while [ $# -gt 0 ]; do
        PATH="$PATH:/usr/sbin:/sbin" have "$1" || missing+=("$2")
        shift 2
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! have apt-get; then
        say "missing: ${missing[*]} (Debian's names); install them and run this again"
        exit 1
    fi
    say "apt-get install ${missing[*]}"
    "${sudo[@]}" apt-get update -qq >/dev/null
    # A package that brings a daemon must not start it: tests start their own on loopback.
    local policy=/usr/sbin/policy-rc.d made=
    if [ ! -e "$policy" ] && [ -w /usr/sbin ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=1
    fi
    local rc=0
    "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || rc=$?
    [ -z "$made" ] || rm -f "$policy"
    return "$rc"
}

# cargo_tool COMMAND CRATE: a Rust program from crates.io, once.
cargo_tool() {
    have "$1" && return 0
    say "cargo install --locked $2 (a few minutes, once; unoptimised, which is quicker to build)"
    cargo install --locked --quiet --debug "$2"
}

build() {
    apt_for cc gcc ar binutils
    if ! have cargo; then
        if have rustup; then
            rustup show >/dev/null
        else
            say "no Rust toolchain: trying Debian's rustup"
            apt_for rustup rustup || true
            if have rustup; then rustup toolchain install stable --profile minimal -c clippy -c rustfmt; fi
        fi
    fi
    if ! have cargo; then
        say "cargo is not installed: get Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or newer from https://rustup.rs and run this again"
        exit 1
    fi
    local want got
    want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    got=$(rustc --version | awk '{print $2}')
    if [ "$(printf '%s\n%s\n' "$want" "$got" | sort -V | head -n1)" != "$want" ]; then
        say "Rust $want or newer is needed, $got is installed (rustup update stable)"
        exit 1
    fi
}

python_packages() {
    local venv=.cache/venv
    if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
        say "creating $venv"
        if ! python3 -m venv "$venv" 2>/dev/null; then
            rm -rf "$venv"
            "${sudo[@]}" apt-get install -y -qq python3-venv >/dev/null
            python3 -m venv "$venv"
        fi
    fi
    if ! "$venv/bin/python" -c 'import pjsua2' 2>/dev/null; then
        say "pip install pjsua2-python==2.15.1.post1"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: pjsua2-python==2.15.1.post1
    fi
}

test_tools() {
    build
    apt_for c++ g++ python3 python3 sipp sip-tester kamailio kamailio baresip baresip-core prlimit util-linux
    if have rustup; then
        have cargo-clippy || rustup component add clippy
        have cargo-fmt || rustup component add rustfmt
    fi
    cargo_tool cargo-deny cargo-deny
    python_packages
}

bench_tools() {
    build
    apt_for python3 python3 sipp sip-tester kamailio kamailio perf linux-perf taskset util-linux
}

case ${1:-} in
build) build ;;
test) test_tools ;;
bench) bench_tools ;;
*)
    echo "usage: $0 build|test|bench" >&2
    exit 2
    ;;
esac
