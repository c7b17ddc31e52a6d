#!/usr/bin/env bash
# Builds the relocatable tree: bin/ lib/ python/ catalog/ fabrics/ studies/ references/ mpibench/ npb/
# lattice/ weather/ cmake/.
set -euo pipefail
dist=${1:?usage: dist.sh DIR}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

step() { # step WORDS: prints the next step and the seconds since the start
    printf 'build: %3d s: %s\n' "$SECONDS" "$*"
}

# One call builds all packages. Separate calls would select other features and compile shared crates
# again.
target=${CARGO_TARGET_DIR:-target}
step "compiling the engine, the libraries and the command (a first build takes some minutes)"
cargo build --release -p softband-cli -p softband-preload -p softband-libpmi -p xtask
mkdir -p "$dist/bin" "$dist/lib"
step "linking libsoftband.so and libibverbs.so.1"
"$target/release/xtask" link --archive "$target/release/libsoftband_preload.a" --out "$dist"
install -m 755 "$target/release/softband" "$dist/bin/softband"
install -m 755 "$target/release/libsoftband_pmi.so" "$dist/lib/libsoftband_pmi.so"
step "compiling softband-multirail"
cc -O2 -Wall -Wextra -o "$dist/bin/softband-multirail" tools/multirail/*.c -libverbs
step "compiling softband-rfio"
cc -O2 -Wall -Wextra -o "$dist/bin/softband-rfio" tools/rfio/*.c -libverbs
step "compiling softband-tcpplay"
cc -O2 -Wall -Wextra -o "$dist/bin/softband-tcpplay" tools/tcpplay/*.c
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
