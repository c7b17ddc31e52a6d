#!/usr/bin/env bash
# Builds the relocatable tree: bin/ lib/ python/ catalog/ fabrics/ studies/ references/ mpibench/ npb/
# lattice/ weather/ cmake/.
#
# GLIBC=2.28 makes programs for this version of the C library and all later versions, by Zig's
# linker (cargo-zigbuild and zig must be on the PATH). LAB=no leaves out python/ and its commands.
set -euo pipefail
dist=${1:?usage: dist.sh DIR}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

target=${CARGO_TARGET_DIR:-target}
made=$target/release
compiler=(cc)
verbs=(-libverbs)

step() { # step WORDS: prints the next step and the seconds since the start
    printf 'build: %3d s: %s\n' "$SECONDS" "$*"
}

# One call builds all packages. Separate calls would select other features and compile shared crates
# again.
step "compiling the engine, the libraries and the command (a first build takes some minutes)"
if [ -n "${GLIBC:-}" ]; then
    triple=x86_64-unknown-linux-gnu
    cargo-zigbuild zigbuild --release --target "$triple.$GLIBC" -p softband-cli -p softband-preload -p softband-libpmi -p xtask
    made=$target/$triple/release
    compiler=(zig cc -target "x86_64-linux-gnu.$GLIBC" -s)
    # Zig brings the C library's headers of this version, so only those of verbs come from the system.
    mkdir -p "$target/headers"
    ln -sfn /usr/include/infiniband "$target/headers/infiniband"
    verbs=(-isystem "$target/headers" "$dist/lib/libibverbs.so.1")
else
    cargo build --release -p softband-cli -p softband-preload -p softband-libpmi -p xtask
fi
mkdir -p "$dist/bin" "$dist/lib"
step "linking libsoftband.so and libibverbs.so.1"
CC="${compiler[*]}" "$made/xtask" link --archive "$made/libsoftband_preload.a" --out "$dist"
install -m 755 "$made/softband" "$dist/bin/softband"
install -m 755 "$made/libsoftband_pmi.so" "$dist/lib/libsoftband_pmi.so"
step "compiling softband-multirail"
"${compiler[@]}" -O2 -Wall -Wextra -o "$dist/bin/softband-multirail" tools/multirail/*.c "${verbs[@]}"
step "compiling softband-rfio"
"${compiler[@]}" -O2 -Wall -Wextra -o "$dist/bin/softband-rfio" tools/rfio/*.c "${verbs[@]}"
step "compiling softband-tcpplay"
"${compiler[@]}" -O2 -Wall -Wextra -o "$dist/bin/softband-tcpplay" tools/tcpplay/*.c
install -m 755 tools/rsh/softband-rsh "$dist/bin/softband-rsh"

step "copying the catalog, the fabrics, the studies, the recording layer and the benchmarks"
# Users compile MPI programs with their own mpicc.
for sources in tools/mpibench apps/npb apps/lattice apps/weather; do
    name=$(basename "$sources")
    rm -rf "${dist:?}/$name"
    mkdir -p "$dist/$name"
    cp "$sources"/*.c "$sources"/*.h "$sources/Makefile" "$dist/$name/"
    install -m 755 tools/compiled/mpi-program "$dist/bin/softband-$name"
done
rm -rf "${dist:?}/cmake"
cp -r recipes/cmake "$dist/cmake"
for folder in catalog fabrics studies references; do
    rm -rf "${dist:?}/$folder"
    cp -r "$folder" "$dist/$folder"
done

# The MPI at hand compiles the layer when a user records a program.
rm -rf "${dist:?}/tools"
mkdir -p "$dist/tools"
cp -r tools/mpirecord "$dist/tools/mpirecord"
cp -r tools/hostrates "$dist/tools/hostrates"

if [ "${LAB:-yes}" = no ]; then
    step "done: $dist"
    exit
fi

# The lab's packages change rarely. The script fetches them only after a change of their list.
fingerprint=$(sha256sum lab/pyproject.toml | cut -d' ' -f1)
if [ "$(cat "$dist/python/.fingerprint" 2>/dev/null)" != "$fingerprint" ]; then
    step "installing the lab and its Python packages"
    rm -rf "$dist/python"
    python3 -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --root-user-action=ignore --target "$dist/python" ./lab
    echo "$fingerprint" >"$dist/python/.fingerprint"
else
    rm -rf "$dist/python/softband_lab"
    cp -r lab/src/softband_lab "$dist/python/softband_lab"
fi
rm -rf lab/build

lab_command() { # lab_command NAME PYTHON-MODULE [WORD]
    cat >"$dist/bin/softband-$1" <<SH
#!/bin/sh
# Runs this tree's own Python packages, wherever the tree lies; those of the current folder are none of them (-P).
home=\$(dirname "\$(dirname "\$(readlink -f "\$0")")")
PYTHONPATH="\$home/python" SOFTBAND_HOME="\${SOFTBAND_HOME:-\$home}" SOFTBAND_BIN="\${SOFTBAND_BIN:-\$home/bin/softband}" PYTHONDONTWRITEBYTECODE=1 exec python3 -P -m ${*:2} "\$@"
SH
    chmod 755 "$dist/bin/softband-$1"
}
for command in study what-if model-sweep compare; do
    lab_command "$command" softband_lab "$command"
done
# Schedulers and workers for campaigns. Dask itself is not part of the tree.
lab_command dask softband_lab dask
step "done: $dist"
