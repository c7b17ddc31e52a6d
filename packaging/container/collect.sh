#!/bin/sh
# Collects the files of a container's image: collect.sh FOLDER ARCHIVE. FOLDER gets Softband from the
# archive of a release, programs of this Debian (perftest, ibverbs-utils, rdmacm-utils), their
# libraries, and a shell. The packages must be installed, as in the Dockerfile.
set -eu
image=${1:?usage: collect.sh FOLDER ARCHIVE} archive=${2:?usage: collect.sh FOLDER ARCHIVE}

mkdir -p "$image/usr/bin" "$image/usr/lib" "$image/usr/lib64" "$image/etc" "$image/opt/softband" "$image/proc" "$image/dev"
for folder in bin lib lib64; do
    ln -s "usr/$folder" "$image/$folder"
done
mkdir -m 1777 "$image/tmp"
mkdir -p "$image/run/softband"
# Others take part in a fabric there, and only its owner brings it up.
chown 1000:1000 "$image/run/softband"

tar -xf "$archive" -C "$image/opt/softband" --strip-components=1
# Studies need the lab, and benchmarks a compiler.
for folder in studies references mpibench npb lattice weather tools; do
    rm -rf "$image/opt/softband/$folder"
done
for program in mpibench npb lattice weather; do
    rm "$image/opt/softband/bin/softband-$program"
done
ln -s /opt/softband/bin/softband "$image/usr/bin/softband"

programs=$(dpkg -L perftest ibverbs-utils rdmacm-utils | grep '^/usr/bin/.')
cp $programs /bin/busybox "$image/usr/bin/"
# A program links to the interpreter and to libraries that further libraries need.
ldd $programs /bin/busybox "$image"/opt/softband/bin/* "$image"/opt/softband/lib/* 2>/dev/null |
    sed -n 's/^\t\(.* => \)\?\(\/[^ ]*\) .*/\2/p' | grep -v "^$image" | sort -u |
    while read -r library; do
        mkdir -p "$image$(dirname "$library")"
        cp --dereference "$library" "$image$library"
    done
for name in $(busybox --list); do
    [ -e "$image/usr/bin/$name" ] || ln -s busybox "$image/usr/bin/$name"
done
printf 'root:x:0:0:root:/:/bin/sh\nsoftband:x:1000:1000:softband:/tmp:/bin/sh\n' >"$image/etc/passwd"
printf 'root:x:0:\nsoftband:x:1000:\n' >"$image/etc/group"
