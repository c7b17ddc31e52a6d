#!/usr/bin/env bash
# Installs missing packages and Rust on a Debian or Ubuntu machine. Skips present ones.
set -euo pipefail

# Debian has administrators' programs in sbin, which the PATH of an ordinary user lacks.
export PATH="$HOME/.cargo/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"
cd "$(dirname "$0")/.."

packages=()
need() { # need PACKAGE COMMAND-OR-FILE
    command -v "$2" >/dev/null 2>&1 || [ -e "$2" ] || packages+=("$1")
}
need perftest ib_send_bw
need ibverbs-utils ibv_devinfo
need libibverbs-dev /usr/include/infiniband/verbs.h
need libibmad-dev /usr/include/infiniband/mad.h
need libibumad-dev /usr/include/infiniband/umad.h
need librdmacm-dev /usr/include/rdma/rdma_cma.h
need rdmacm-utils rping
need netpipe-tcp NPtcp
need python3-pyverbs /usr/lib/python3/dist-packages/pyverbs/__init__.py
need iperf3 iperf3
need fio fio
need libfabric-bin fi_pingpong
need nuttcp nuttcp
need infiniband-diags ibstatus
need opensm opensm
need ibsim-utils ibsim
need gcc cc
need g++ c++
need cmake cmake
need mpich /usr/bin/mpiexec.mpich
need libmpich-dev /usr/bin/mpicc.mpich
need openmpi-bin /usr/bin/mpiexec.openmpi
need libopenmpi-dev /usr/bin/mpicc.openmpi
need python3-mpi4py /usr/lib/python3/dist-packages/mpi4py
need libc6-dev /usr/include/stdio.h
need make make
need curl curl
need ca-certificates /etc/ssl/certs/ca-certificates.crt
need python3 python3
need iproute2 ip
need net-tools ifconfig
# NPtcp asks for the number of TCP in /etc/protocols.
need netbase /etc/protocols
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)

if [ ${#packages[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: these are missing and this machine has no apt-get: ${packages[*]}" >&2
        exit 1
    fi
    sudo=
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "setup: sudo is missing, so please run once as root:  apt-get install ${packages[*]}" >&2
            exit 1
        fi
        sudo=sudo
    fi
    echo "setup: installing ${packages[*]}"
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: installing Rust $pinned for this user (rustup)"
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    # The installer must keep its own name, because it behaves differently under other names.
    installer=$folder/rustup-init
    if ! curl --proto '=https' --tlsv1.2 -sSf -o "$installer" "https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu/rustup-init"; then
        echo "setup: the installer of Rust cannot be downloaded; install Rust $wanted or later (https://rustup.rs, or a package), then run this again" >&2
        exit 1
    fi
    chmod +x "$installer"
    "$installer" -y --quiet --no-modify-path --default-toolchain "$pinned" --profile minimal -c clippy -c rustfmt
elif ! RUSTUP_AUTO_INSTALL=0 cargo --version >/dev/null 2>&1; then
    echo "setup: installing Rust $pinned beside the other toolchains (rustup)"
    if ! rustup toolchain install "$pinned" --no-self-update --profile minimal -c clippy -c rustfmt; then
        echo "setup: Rust $pinned cannot be installed; build with another one:  export RUSTUP_TOOLCHAIN=stable" >&2
        exit 1
    fi
fi
have=$(cargo --version | cut -d' ' -f2)
if [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -1)" != "$wanted" ]; then
    echo "setup: cargo $have is older than $wanted: install $pinned from https://rustup.rs" >&2
    exit 1
fi
python3 - <<'PY'
import sys
if sys.version_info < (3, 11):
    sys.exit(f"setup: python3 is {sys.version.split()[0]}, 3.11 or later is needed")
PY
