#!/usr/bin/env bash
# Install what a step of the Makefile needs and the machine lacks.
#
#   verify/setup.sh build|package|test|bench|emulation
#
# Debian packages come by apt-get (as root, else through sudo), Python packages go into
# .cache/venv of this repository, Rust tools into cargo's bin folder. What is there already is left
# alone, so a second run does nothing. Each installation is announced before it starts.
set -euo pipefail
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive

say() { printf 'setup: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

# Where Rust's own installer puts cargo, which a shell opened before it does not know. The Makefile
# looks there too.
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

sudo=()
if [ "$(id -u)" != 0 ] && have sudo; then sudo=(sudo); fi

# The lists of packages, once in a run.
apt_update() {
    [ -n "${updated:-}" ] || "${sudo[@]}" apt-get update -qq >/dev/null
    updated=1
}

# apt_for COMMAND PACKAGE ...: the packages whose command (or file, if it is a path) is missing, in one
# installation.
apt_for() {
    local missing=()
    while [ $# -gt 0 ]; do
        case $1 in
        /*) [ -e "$1" ] || missing+=("$2") ;;
        *) PATH="$PATH:/usr/sbin:/sbin" have "$1" || missing+=("$2") ;;
        esac
        shift 2
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! have apt-get; then
        say "missing: ${missing[*]} (Debian's names); install them and run this again"
        exit 1
    fi
    apt_install "${missing[@]}"
}

# apt_install PACKAGE ...
apt_install() {
    say "apt-get install $*"
    apt_update
    # A package that brings a daemon must not start it: tests start their own on loopback.
    local policy=/usr/sbin/policy-rc.d made=
    if [ ! -e "$policy" ] && [ -w /usr/sbin ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=1
    fi
    local rc=0
    "${sudo[@]}" apt-get install -y -qq --no-install-recommends "$@" >/dev/null || rc=$?
    [ -z "$made" ] || rm -f "$policy"
    return "$rc"
}

# cargo_tool COMMAND CRATE: a Rust program from crates.io, once.
cargo_tool() {
    have "$1" && return 0
    say "cargo install --locked $2 (a few minutes, once; unoptimised, which is quicker to build)"
    cargo install --locked --quiet --debug "$2"
}

# at_least WANTED VERSION: is VERSION that or newer?
at_least() { [ -n "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1)" = "$1" ]; }

# The version of PACKAGE that apt would install; nothing if it has none.
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -v none || true; }

rust_version() { have cargo && have rustc && rustc --version 2>/dev/null | awk '{print $2}'; }

# rust_from_rustup: what rustup has, with the tools that `make check` needs.
rust_from_rustup() {
    say "rustup toolchain install stable"
    rustup toolchain install stable --no-self-update --profile minimal -c clippy -c rustfmt >/dev/null &&
        { rustup default >/dev/null 2>&1 || rustup default stable >/dev/null; }
}

# install_rust WANTED: the first of what this system has that is new enough. Debian's older releases
# keep a current compiler for browsers beside their own, in packages that end in -web.
install_rust() {
    if have rustup; then
        rust_from_rustup && at_least "$1" "$(rust_version)" && return 0
    fi
    have apt-get || return 1
    # Nothing that somebody installed is replaced by another package without being asked.
    ! have rustc || return 1
    apt_update
    if at_least "$1" "$(candidate rustc)"; then
        apt_install rustc cargo && return 0
    fi
    if [ -n "$(candidate rustup)" ] && ! have rustup; then
        apt_install rustup && rust_from_rustup && return 0
    elif at_least "$1" "$(candidate rustc-web)"; then
        apt_install rustc-web cargo-web rustfmt-web && return 0
    fi
    return 1
}

build() {
    # The C compiler and its headers are for SQLite and the allocator, the certificates for crates.io.
    apt_for cc gcc ar binutils
    printf '#include <stdio.h>\n' | cc -E - >/dev/null 2>&1 || apt_for /usr/include/stdio.h libc6-dev
    ! have apt-get || apt_for /etc/ssl/certs/ca-certificates.crt ca-certificates
    local want got
    want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    got=$(rust_version || true)
    at_least "$want" "$got" && return 0
    say "Rust $want or newer is needed, ${got:-none} is installed"
    install_rust "$want" || true
    got=$(rust_version || true)
    at_least "$want" "$got" && return 0
    if have rustup; then
        say "rustup could not make it so: \`rustup default stable\` and \`rustup update\`, then run this again"
    elif [ -n "$got" ]; then
        say "Rust $got is too old and was left alone: remove it (apt-get remove rustc cargo) and run this"
        say "again, or put a newer one before it in PATH, for example from https://rustup.rs"
    else
        say "this system has no package of it: install it from https://rustup.rs and run this again"
    fi
    exit 1
}

python_packages() {
    local venv=.cache/venv
    if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
        say "creating $venv"
        if ! python3 -m venv "$venv" >/dev/null 2>&1; then
            rm -rf "$venv"
            apt_install python3-venv
            python3 -m venv "$venv"
        fi
    fi
    if ! "$venv/bin/python" -c 'import pjsua2' 2>/dev/null; then
        say "pip install pjsua2-python==2.15.1.post1"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: pjsua2-python==2.15.1.post1
    fi
}

# The phones that run in a browser, as their lock file has them.
browser_packages() {
    local to=.cache/browser lock=package-lock.json
    cmp -s verify/interop/browser/$lock "$to/$lock" && [ -d "$to/node_modules" ] && return 0
    say "npm ci: JsSIP, SIP.js and what drives a browser"
    mkdir -p "$to"
    cp verify/interop/browser/package.json verify/interop/browser/$lock "$to/"
    npm ci --prefix "$to" --no-audit --no-fund --silent
}

# rust_tool COMMAND COMPONENT PACKAGE: a part of Rust that checks need, of the same version as cargo.
rust_tool() {
    "$1" --version >/dev/null 2>&1 && return 0
    if have rustup && rustup component add "$2"; then return 0; fi
    local got
    got=$(rust_version)
    if at_least "${got%.*}" "$(candidate "$3")" && apt_install "$3"; then return 0; fi
    say "$1 is missing and not in this system's packages; Rust from https://rustup.rs has it"
}

test_tools() {
    build
    apt_for c++ g++ python3 python3 sysctl procps sipp sip-tester kamailio kamailio prlimit util-linux openssl openssl \
        baresip baresip-core linphonec linphone-cli sslscan sslscan testssl testssl.sh \
        faketime faketime ip iproute2 keepalived keepalived bird bird2
    # Its TLS is loaded where Kamailio keeps its modules.
    ls /usr/lib/*/kamailio/modules/tls.so >/dev/null 2>&1 || apt_install kamailio-tls-modules
    # The kernel with SCTP that verify/uml boots; Debian has it for x86 alone.
    [ "$(uname -m)" != x86_64 ] || apt_for linux.uml user-mode-linux modprobe kmod
    rust_tool cargo-clippy clippy rust-clippy
    rust_tool cargo-fmt rustfmt rustfmt
    apt_for chromium chromium node nodejs npm npm openssl openssl
    apt_for dpkg-buildpackage dpkg-dev dh debhelper lintian lintian promtool prometheus debootstrap debootstrap
    cargo_tool cargo-deny cargo-deny
    python_packages
    browser_packages
}

package_tools() {
    build
    apt_for dpkg-buildpackage dpkg-dev dh debhelper
}

bench_tools() {
    build
    apt_for python3 python3 sysctl procps sipp sip-tester kamailio kamailio taskset util-linux
    # Its TLS is loaded where Kamailio keeps its modules.
    ls /usr/lib/*/kamailio/modules/tls.so >/dev/null 2>&1 || apt_install kamailio-tls-modules
    # MariaDB, and Kamailio's tables for it: lab/papers/000-databases.toml.
    [ -e /usr/sbin/mariadbd ] || apt_install mariadb-server || say 'lab/papers/000-databases.toml needs mariadb-server'
    [ -e /usr/share/kamailio/mysql ] || apt_install kamailio-mysql-modules || say '000-databases.toml needs Kamailio with MySQL'
}

emulation_tools() {
    build
    apt_for python3 python3 sipp sip-tester kamailio kamailio qemu-system-x86_64 qemu-system-x86 busybox busybox-static \
        cpio cpio
}

case ${1:-} in
build) build ;;
package) package_tools ;;
test) test_tools ;;
bench) bench_tools ;;
emulation) emulation_tools ;;
*)
    echo "usage: $0 build|package|test|bench|emulation" >&2
    exit 2
    ;;
esac
