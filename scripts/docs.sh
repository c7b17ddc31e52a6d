#!/usr/bin/env bash
# Builds the documentation as a book into target/book, with mdBook.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/target/tools/bin:$HOME/.cargo/bin:$PATH"

# Change the version together with the options in docs/book.toml.
version=0.5.4
pages=target/book-pages
book=target/book

if ! command -v mdbook >/dev/null 2>&1; then
    if ! command -v cargo >/dev/null 2>&1; then
        echo "docs: mdbook is missing, and cargo, which could install it. Run \`make setup\`, or put mdbook on the PATH." >&2
        exit 1
    fi
    echo "docs: installing mdbook $version into target/tools (once, some minutes)"
    if ! cargo install mdbook --version "$version" --locked --root target/tools --no-default-features --features search; then
        echo "docs: mdbook could not be installed. The installation needs a network and crates.io." >&2
        echo "docs: without a network, put mdbook $version on the PATH. The pages in docs/ need no build." >&2
        exit 1
    fi
fi

echo "docs: copying pages to $pages"
python3 scripts/book.py "$pages"
echo "docs: building the book with $(mdbook --version)"
mdbook build "$pages" --dest-dir "$PWD/$book"
echo "docs: read $PWD/$book/index.html"
