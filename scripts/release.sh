#!/usr/bin/env bash
# Builds the artifacts of a release into target/artifacts: archive, Debian package, wheels, crates,
# sources, bill of materials, licenses and checksums. Prints the size and the time of each.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

# Programs for this C library run on all later versions: Debian 10, Ubuntu 20.04, RHEL 8.
export GLIBC=2.28
platform=manylinux_2_28_x86_64
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
commit=$(git rev-parse --short=12 HEAD)
# The date of the commit, so the same sources give the same archives.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
out=$root/target/artifacts
tree=$root/target/release-tree
tools=$root/target/release-tools
name=softband-$version-x86_64-linux

fail() {
    echo "release: $1" >&2
    exit 1
}

step() { # step WORDS: prints the next step and the seconds since the start
    printf 'release: %4d s: %s\n' "$SECONDS" "$*"
}

python_tools() {
    [ -x "$tools/python/bin/zig" ] && return
    step "installing Zig's linker and the tools for wheels into target/release-tools"
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet --disable-pip-version-check \
        'ziglang==0.17.1' 'cargo-zigbuild==0.24.1' 'auditwheel==6.8.2' 'build==1.6.1' 'setuptools==84.2.1' 'wheel==0.48.0'
    printf '#!/bin/sh\nexec "%s/python/bin/python" -m ziglang "$@"\n' "$tools" >"$tools/python/bin/zig"
    chmod 755 "$tools/python/bin/zig"
}

cargo_tool() { # cargo_tool NAME VERSION [OPTION]: installs a command of cargo unless the PATH has it
    command -v "$1" >/dev/null 2>&1 && return
    step "installing $1 $2 into target/release-tools (once, some minutes)"
    cargo install --quiet --locked --root "$tools" --version "$2" "${@:3}" "$1"
}

pack() { # pack FOLDER NAME: writes NAME.tar.zst with sorted names, one date and no users
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$1" -cf - "$2" | zstd --quiet -19 -T0 -f -o "$out/$2.tar.zst"
}

archive() {
    step "packing $name.tar.zst"
    local folder=$root/target/release-archive
    rm -rf "$folder"
    mkdir -p "$folder"
    cp -r "$tree" "$folder/$name"
    cp LICENSE-MIT LICENSE-APACHE CHANGELOG.md "$out/licenses.html" "$folder/$name/"
    cp packaging/README.md "$folder/$name/README.md"
    pack "$folder" "$name"
}

debian_package() {
    step "building the Debian package"
    local stage=$root/target/release-deb
    rm -rf "$stage"
    mkdir -p "$stage/bin" "$stage/tree/data" "$stage/share/doc/softband"
    cp -r "$tree/." "$stage/tree/data/"
    mv "$stage/tree/data/bin" "$stage/tree/bin"
    local command
    for command in "$stage/tree/bin"/*; do
        ln -s "../lib/softband/bin/$(basename "$command")" "$stage/bin/$(basename "$command")"
    done
    cp LICENSE-MIT LICENSE-APACHE CHANGELOG.md "$out/licenses.html" "$stage/share/doc/softband/"
    mkdir -p "$stage/share/bash-completion/completions" "$stage/share/zsh/vendor-completions" "$stage/share/fish/vendor_completions.d"
    "$tree/bin/softband" completions bash >"$stage/share/bash-completion/completions/softband"
    "$tree/bin/softband" completions zsh >"$stage/share/zsh/vendor-completions/_softband"
    "$tree/bin/softband" completions fish >"$stage/share/fish/vendor_completions.d/softband.fish"
    "$tree/bin/softband" completions --man "$stage/share/man/man1" >/dev/null
    gzip -9n "$stage"/share/man/man1/*.1
    cargo deb --quiet --no-build --no-strip -p softband-cli --deb-version "$version" -o "$out/softband_${version}_amd64.deb" >/dev/null
}

wheel() { # wheel FOLDER: builds the wheel of a folder into the artifacts
    "$tools/python/bin/python" -m build --wheel --no-isolation --outdir "$out" "$1" >"$root/target/release-wheel.log" 2>&1 ||
        { cat "$root/target/release-wheel.log" >&2; fail "the wheel of $1 cannot be built"; }
}

wheels() {
    step "building the wheels"
    local stage=$root/target/release-wheels
    rm -rf "$stage"
    mkdir -p "$stage"
    cp -r packaging/python "$stage/softband"
    cp -r "$tree" "$stage/softband/softband/tree"
    cp LICENSE-MIT LICENSE-APACHE "$out/licenses.html" "$stage/softband/"
    sed -i "s/^version = .*/version = \"$version\"/" "$stage/softband/pyproject.toml"
    wheel "$stage/softband"
    "$tools/python/bin/wheel" tags --remove --python-tag py3 --abi-tag none --platform-tag "$platform" "$out/softband-$version-py3-none-any.whl" >/dev/null
    check_wheel "$out/softband-$version-py3-none-$platform.whl"

    # A checkout has its own command, so only the wheel depends on the other.
    cp -r lab "$stage/lab"
    rm -rf "$stage/lab/tests"
    sed -i -e "s/^version = .*/version = \"$version\"/" -e "s/^dependencies = \[/&\n    \"softband==$version\",/" "$stage/lab/pyproject.toml"
    wheel "$stage/lab"
}

# The linker marks each symbol with the version of the C library that first had it.
check_wheel() {
    local file newest
    for file in "$tree"/bin/softband "$tree"/bin/softband-multirail "$tree"/bin/softband-rfio "$tree"/bin/softband-tcpplay "$tree"/lib/*; do
        # libibverbs.so.1 has jumps only, and no symbol of the C library.
        newest=$(objdump -T "$file" | { grep -o 'GLIBC_2\.[0-9]*' || true; } | sort -Vu | tail -n 1)
        [ "$(printf '%s\nGLIBC_%s\n' "$newest" "$GLIBC" | sort -V | tail -n 1)" = "GLIBC_$GLIBC" ] ||
            fail "$file needs $newest, so the name of $1 would be a lie"
    done
}

crates() {
    step "packaging the crates"
    local folder=$root/target/release-crates
    rm -rf "$folder"
    cargo publish --quiet --workspace --dry-run --no-verify --allow-dirty --locked --target-dir "$folder"
    mkdir -p "$out/crates"
    find "$folder/package" -name "*.crate" -exec cp {} "$out/crates/" \;
}

licenses() {
    step "listing the parts and licenses of the binaries"
    cargo about generate --locked -c packaging/about.toml packaging/about.hbs -o "$out/licenses.html"
    cargo cyclonedx --quiet --manifest-path crates/cli/Cargo.toml --format json --spec-version 1.5 --override-filename softband.cdx
    mv crates/cli/softband.cdx.json "$out/softband-$version.cdx.json"
    find crates -name softband.cdx.json -delete
}

command -v zstd >/dev/null || fail "zstd is missing; install it (Debian: apt-get install zstd)"
[ -z "$(git status --porcelain --untracked-files=no)" ] || echo "release: the tree has changes; the artifacts name commit $commit" >&2
python_tools
export PATH=$tools/python/bin:$tools/bin:$PATH
cargo_tool cargo-deb 3.8.0
cargo_tool cargo-about 0.9.3 --features=cli
cargo_tool cargo-cyclonedx 0.5.9
rm -rf "$out" "$tree"
mkdir -p "$out"

step "building the tree for glibc $GLIBC and later"
LAB=no scripts/dist.sh "$tree"
printf '%s %s\n' "$version" "$commit" >"$tree/version.txt"
licenses
archive
debian_package
wheels
crates
step "packing the sources"
git archive --format=tar --prefix="softband-$version/" HEAD | zstd --quiet -19 -T0 -f -o "$out/softband-$version-source.tar.zst"
(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
step "done: target/artifacts"
(cd "$out" && find . -type f -size +0 -not -path './crates/*' -printf '%s %P\n' | sort -k2 | awk '{ printf "release: %7.2f MB  %s\n", $1 / 1e6, $2 }')
