#!/usr/bin/env bash
# Installs each artifact of `make release` with its one line in a fresh Debian, and runs two programs
# there as an ordinary user. Prints the time of each. Needs root, mmdebstrap and a mirror of Debian.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-bookworm}
artifacts=$PWD/target/artifacts
work=$PWD/target/try-release
base=$work/$suite.tar

fail() {
    echo "try-release: $1" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "this script enters roots of other systems: run it as root"
command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing; install it (Debian: apt-get install mmdebstrap)"
[ -f "$artifacts/SHA256SUMS" ] || fail "no artifacts in $artifacts: run \`make release\`"
(cd "$artifacts" && sha256sum --quiet -c SHA256SUMS)
mkdir -p "$work"
if [ ! -f "$base" ]; then
    echo "try-release: unpacking $suite (once)"
    mmdebstrap --quiet --variant=minbase --include=ca-certificates,perftest,python3-venv,zstd "$suite" "$base" /etc/apt/sources.list.d/*.sources
fi

# try_line NAME LINE COMMAND: installs by LINE as root, then runs the programs with COMMAND.
try_line() {
    local root=$work/$1
    rm -rf "$root"
    mkdir -p "$root"
    tar -C "$root" -xf "$base"
    cp -r "$artifacts" "$root/artifacts"
    chroot "$root" useradd --create-home someone
    for file in /etc/resolv.conf /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
        [ ! -f "$file" ] || cp --dereference "$file" "$root$file"
    done
    cat >"$root/try.sh" <<SH
set -eu
mount -t proc proc /proc
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
cd /artifacts
begin=\$(date +%s)
$2
installed=\$(date +%s)
su someone -c "cd && $3 run two-hosts --on a ib_write_lat --on b 'ib_write_lat a'" | tail -n 2
su someone -c "cd && $3 run two-hosts --pace wall --on a ib_write_lat --on b 'ib_write_lat a' >/dev/null"
echo "try-release: $1: installed in \$((installed - begin)) s, ran in \$((\$(date +%s) - installed)) s"
$4
SH
    echo "try-release: $suite, $1: $2"
    PIP_ROOT_USER_ACTION=ignore unshare --mount chroot "$root" /bin/bash /try.sh || fail "$1 does not work in $suite"
    rm -rf "$root"
}

try_line archive "tar -C /opt -xf softband-*-x86_64-linux.tar.zst" "/opt/softband-*/bin/softband" ""
try_line debian "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq ./softband_*_amd64.deb >/dev/null" softband "ls /usr/share/man/man1/softband.1.gz >/dev/null"
try_line wheel "python3 -m venv /env && /env/bin/pip install -q softband-*-manylinux_2_28_x86_64.whl" /env/bin/softband ""
try_line lab "python3 -m venv /env && /env/bin/pip install -q --find-links . softband-lab" /env/bin/softband \
    "su someone -c 'cd && /env/bin/softband what-if --help >/dev/null'"
echo "try-release: each artifact works in $suite"
