#!/usr/bin/env bash
# Builds the site as static pages: the book, rustdoc, the Python API, studies and catalogue. Checks
# all links within it. STUDIES is a folder with results of studies, such as results/. Without it the
# script runs the quick part of the five papers, and keeps the results in target/site-studies.
set -euo pipefail
dist=$(realpath "${1:?usage: site.sh DIST OUT [STUDIES]}")
out=$(realpath -m "${2:?usage: site.sh DIST OUT [STUDIES]}")
studies=${3:+$(realpath "$3")}
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"

# Change the version together with scripts/site/pdoc/theme.css, which replaces its colours.
pdoc=16.0.0
venv=target/venv
crates="fabric model parallel sim spec test types wire workload"

step() { # step WORDS: prints the next step and the seconds since the start
    printf 'site: %3d s: %s\n' "$SECONDS" "$*"
}

if [ "$("$venv/bin/python" -c 'import pdoc; print(pdoc.__version__)' 2>/dev/null)" != "$pdoc" ]; then
    step "installing pdoc $pdoc into $venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "pdoc==$pdoc" || {
        echo "site: pdoc could not be installed: the installation needs a network" >&2
        exit 1
    }
fi

if [ -z "$studies" ]; then
    step "running the quick part of the five papers (some minutes; later builds reuse the runs)"
    studies=$PWD/target/site-studies
    mkdir -p "$studies"
    # A failed run has its place on the page, so the site goes on.
    "$dist/bin/softband" study papers --quick --out "$studies/papers" || echo "site: a study failed; its page names the runs" >&2
fi

lab() { # lab WORDS: the lab of this checkout with the programs of the tree
    SOFTBAND_BIN="$dist/bin/softband" SOFTBAND_HOME="$dist" "$venv/bin/python" -P -m softband_lab "$@"
}

step "writing the pages of catalogue, fabrics and studies"
lab site "$out" --fresh --results "$studies"

step "building the book"
scripts/docs.sh
cp -r target/book "$out/book"

# A target folder of its own, so that the pages of other crates stay out.
step "documenting the library crates"
rm -rf target/site-cargo/doc
options=()
manifests=()
for crate in $crates; do
    options+=(-p "softband-$crate")
    manifests+=(--crate "crates/$crate/Cargo.toml")
    # rustdoc links to a crate only if its folder exists, and cargo does not order the crates.
    mkdir -p "target/site-cargo/doc/softband_$crate"
done
cargo doc --quiet --no-deps --target-dir target/site-cargo "${options[@]}"
cp -r target/site-cargo/doc "$out/rust"

step "documenting the Python package"
"$venv/bin/pdoc" --docformat google --no-show-source --template-directory scripts/site/pdoc \
    --output-directory "$out/python" softband_lab '!softband_lab\.'

step "writing the list of crates"
lab site "$out" --results "$studies" "${manifests[@]}"

step "checking all links"
lab site-links "$out"
step "done: read $out/index.html"
