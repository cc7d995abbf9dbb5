# shellcheck shell=bash
# What the scripts share. Sourcing it moves to the root of the repository.

set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

cargo_home=${CARGO_HOME:-~/.cargo}
[[ -z ${CI:-} ]] || export CARGO_INCREMENTAL=0

packages=()   # Debian packages to install
components=() # parts of the Rust toolchain to add

# Prints the heading of a section.
section() {
    printf '\n== %s\n' "$*"
}

# Prints why the script cannot go on, and ends it.
fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

# need COMMAND PACKAGE...: notes that COMMAND has to be there, and the Debian packages it comes from.
need() {
    command -v "$1" >/dev/null || packages+=("${@:2}")
}

# Notes what it takes to compile and link: gcc with the headers and start files of the C library.
need_c_compiler() {
    need cc gcc
    cc -E -xc - <<<'#include <stdio.h>' >/dev/null 2>&1 || packages+=(libc6-dev)
}

# Notes the certificates that cargo needs for its downloads; other systems keep them elsewhere.
need_certificates() {
    [[ ! -e /etc/debian_version || -e /etc/ssl/certs/ca-certificates.crt ]] || packages+=(ca-certificates)
}

# Notes what the tests of network namespaces run.
need_namespaces() {
    need ip iproute2
    need unshare util-linux
}

# Notes what it takes to make a Debian package, beside `packager`.
need_packager() {
    need dpkg-shlibdeps dpkg-dev
    need strip binutils
    need xz xz-utils
}

# Sets `tool` to what packs a Debian package. It has the system compress.
packager() {
    cargo_tool cargo-deb 3.8.0 --no-default-features
}

# cargo_tool NAME VERSION [OPTION...]: sets `tool` to a program from crates.io in that version, and builds it if it is not there.
cargo_tool() {
    local root=${XDG_CACHE_HOME:-~/.cache}/tenure/$1-$2
    tool=$1
    [[ $("$1" --version 2>/dev/null) != *"$2" ]] || return 0
    # In a place of its own, so that another version that you installed stays as it is. Optimised as its
    # authors have it, the build takes three times as long, to save a second of each use.
    tool=$root/bin/$1
    [[ -x $tool ]] || CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        cargo install "$1" --version "$2" --locked --root "$root" --no-track "${@:3}"
}

# within LIMIT COMMAND...: runs COMMAND, and ends it with an error if it takes longer.
within() {
    timeout --kill-after=30s "$@" || {
        local status=$?
        ((status != 124 && status != 137)) || echo "took longer than $1: ${*:2}" >&2
        return "$status"
    }
}

# until_true SECONDS COMMAND...: runs COMMAND until it succeeds; fails after so many seconds.
until_true() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < deadline)) || return 1
        sleep 0.1
    done
}

# Notes a part of the Rust toolchain: `need_component rustfmt fmt` for `cargo fmt`.
need_component() {
    cargo "$2" --version >/dev/null 2>&1 || components+=("$1")
}

# Ends the script unless Rust is there and new enough. Debian 12 has none that is, so there is nothing
# that could be installed here.
need_rust() {
    local wanted found
    command -v cargo >/dev/null || PATH=$PATH:$cargo_home/bin
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    found=$(rustc --version 2>/dev/null | cut -d' ' -f2) || found=
    if [[ -n $found ]] && cargo --version >/dev/null 2>&1 &&
        printf '%s\n' "$wanted" "$found" | sort -CV; then
        return
    fi
    if command -v rustup >/dev/null; then
        fail "missing: Rust $wanted or newer (found: ${found:-none}). Install with:" \
            "  rustup update stable && rustup default stable"
    fi
    fail "missing: Rust $wanted or newer (found: ${found:-none}); the packages of Debian 12 are older." \
        'Install it with rustup, in its default profile:' \
        '  1. apt-get install ca-certificates curl' \
        '  2. run the command that https://rustup.rs shows' \
        '  3. open a new shell and run this script again'
}

# Installs all that was noted if run as root; otherwise says what to install and ends the script.
install_missing() {
    local missing=("${packages[@]}" "${components[@]}")
    ((${#missing[@]} > 0)) || return 0
    if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
        fail "missing: ${missing[*]}. Install with:" \
            ${packages:+"  apt-get install ${packages[*]}"} \
            ${components:+"  rustup component add ${components[*]}"}
    fi
    section "install ${missing[*]}"
    if ((${#packages[@]} > 0)); then
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q
        apt-get install -q -y --no-install-recommends "${packages[@]}"
    fi
    ((${#components[@]} == 0)) || rustup component add "${components[@]}"
}

# Sets `TENURE` to the program: to what it names already, or to a fresh build.
need_tenure() {
    if [[ -n ${TENURE:-} ]]; then
        install_missing
        return
    fi
    need_rust
    need_c_compiler
    need_certificates
    install_missing
    section 'build'
    cargo build --release --locked
    TENURE=$(realpath "${CARGO_TARGET_DIR:-target}/release/tenure")
}

# Sets `TENURE` as above, and `CYCLES` to the load on a deployment that is built beside it.
need_cycles() {
    local built=${TENURE:-}
    need_tenure
    TENURE=$(realpath "$TENURE")
    [[ -n $built ]] || cargo build --quiet --release --locked --package tenure-node --example cycles
    CYCLES=$(dirname "$TENURE")/examples/cycles
    [[ -x $CYCLES ]] || fail "there is no $CYCLES; \`cargo build --package tenure-node --example cycles\` builds it"
}

# run ARGUMENT...: shows a command of Tenure, and runs it on the deployment of TENURE_DATA.
run() {
    local word line='$ tenure'
    for word in "$@"; do
        if [[ $word == *' '* ]]; then line+=" \"$word\""; else line+=" $word"; fi
    done
    printf '\n%s\n' "$line"
    "$TENURE" "$@"
}

# is_up DATA: whether the deployment with that data folder takes commands; what it says of itself is in `doctor`.
is_up() {
    [[ -S $1/tenure.sock ]] && "$TENURE" doctor --data "$1" >"$1/doctor" 2>&1
}

# is_idle DATA: whether all units of its sites are free.
is_idle() {
    "$TENURE" site list --data "$1" -o csv 2>/dev/null |
        awk -F, 'NR > 1 && $2 != $3 { busy = 1 } END { exit busy }'
}

# give_back DATA: closes every lease that is not over. What is leased is cleaned only while its site runs.
give_back() {
    local lease leases
    leases=$("$TENURE" lease list --data "$1" -o csv 2>/dev/null | awk -F, 'NR > 1 { print $1 }') || return 0
    for lease in $leases; do
        "$TENURE" lease close "$lease" --data "$1" --wait >"$1/last" 2>&1 || true
    done
}

# phase NAME COMMAND...: runs a command, and notes in `phases` how long it took.
phases=()
phase() {
    local before after
    before=$(date +%s%N)
    "${@:2}"
    after=$(date +%s%N)
    phases+=("$1 $(((after - before) / 1000000)) ms")
}

# Notes what it takes to install programs from PyPI.
need_python_packages() {
    need python3 python3
    python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
}

# python_packages FOLDER PACKAGE...: installs packages from PyPI into a folder of their own, which is made.
python_packages() {
    python3 -m venv "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
}
