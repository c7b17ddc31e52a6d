#!/usr/bin/env bash
# Builds the files of the container's image and runs its compose file without a container daemon: each
# service gets its own root, user, processes and network by bubblewrap. Prints the size. Needs root,
# mmdebstrap, bubblewrap, python3-yaml and a mirror of Debian.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/target/try-container
image=$work/image

fail() {
    echo "try-container: $1" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "this script enters the root of another system: run it as root"
for program in mmdebstrap bwrap setpriv; do
    command -v "$program" >/dev/null || fail "$program is missing; install mmdebstrap, bubblewrap and util-linux"
done
archive=$(echo target/artifacts/softband-*-x86_64-linux.tar.zst)
[ -f "$archive" ] || fail "no archive in target/artifacts: run \`make release\`"

# The stage `collect` of the Dockerfile.
packages=$(sed -n 's/.*--no-install-recommends //p' packaging/container/Dockerfile | tr ' ' ',')
mkdir -p "$work"
[ -f "$work/debian.tar" ] ||
    mmdebstrap --quiet --variant=minbase --include="$packages" bookworm "$work/debian.tar" /etc/apt/sources.list.d/*.sources
rm -rf "$work/debian" "$image"
mkdir "$work/debian"
tar -C "$work/debian" -xf "$work/debian.tar"
cp packaging/container/collect.sh "$archive" "$work/debian/"
chroot "$work/debian" sh /collect.sh /image "/$(basename "$archive")"
mv "$work/debian/image" "$image"
rm -rf "$work/debian"
kibibytes=$(du -sk "$image" | cut -f1)
perftest=$(du -ck "$image"/usr/bin/{ib_,raw_}* | tail -n 1 | cut -f1)
echo "try-container: the image has $((kibibytes / 1024)) MiB, perftest $((perftest / 1024)) MiB of these"
[ $((kibibytes - perftest)) -lt $((60 * 1024)) ] || fail "the image has 60 MiB or more beside perftest"

exec python3 scripts/try-compose.py packaging/container/compose.yaml "$image" "$work/volume"
