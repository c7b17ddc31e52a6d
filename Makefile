# Two targets do everything: `make demo` and `make test`. Both can run repeatedly.

DIST := target/dist
VENV := target/venv
PREFIX ?= /usr/local
CARGO ?= cargo
SOURCES := $(shell find crates xtask tools -name '*.rs' -o -name '*.toml' -o -name '*.[ch]' -o -name '*.txt' 2>/dev/null) Cargo.toml Cargo.lock
DATA := $(shell find catalog fabrics studies references recipes/cmake -type f 2>/dev/null)
LAB := $(shell find lab/src -name '*.py' -o -name '*.html' -o -name '*.jinja*' -o -name '*.css' -o -name '*.js' 2>/dev/null) lab/pyproject.toml
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: help demo test test-full models build setup install bench bench-engine soak lint test-rust test-lab test-abi test-e2e fuzz docs site deny publish-check release clean

help:
	@echo "make demo       set up, build, run the paper's main story, and say where the page with the charts is"
	@echo "make test       set up, build, run all tests (E2E_USER=NAME, for root: the end-to-end tests as this ordinary user)"
	@echo "make build      leave a relocatable tree in $(DIST)"
	@echo "make install    copy it to PREFIX ($(PREFIX))"
	@echo "make test-full  the slow tests as well: the whole study of the cable paper, rdma-core's own Python tests"
	@echo "make bench      benchmarks, with printed ratios"
	@echo "make bench-engine  speed and memory of fabrics up to 11,664 hosts, beside ns-3, SimGrid and bare events"
	@echo "make soak       ten processes, random work, every byte checked, for an hour (SOAK_SECONDS)"
	@echo "make docs       build the documentation as a book: target/book/index.html"
	@echo "make site       the book, the catalogue, the studies and the APIs as static pages: target/site/index.html (STUDIES=DIR: results)"
	@echo "make deny       licenses, security advisories and sources of all dependencies (needs cargo-deny and the network)"
	@echo "make publish-check  package each library crate and build it from its package (needs the registry of crates)"
	@echo "make release    archive, Debian package, wheels, crates, sources and checksums: target/artifacts"
	@echo "make fuzz       each fuzz target for a minute (needs a nightly toolchain and cargo-fuzz)"

setup: target/setup.stamp
target/setup.stamp: scripts/setup.sh rust-toolchain.toml
	@scripts/setup.sh
	@mkdir -p target && touch $@

build: target/build.stamp
target/build.stamp: target/setup.stamp $(SOURCES) $(DATA) $(LAB) scripts/dist.sh
	@scripts/dist.sh $(DIST)
	@touch $@

demo: build
	@echo "demo: measuring the main story of the cable paper in simulated time"
	@$(DIST)/bin/softband study cables --quick --out results/demo
	@echo
	@echo "The page with the charts: $(CURDIR)/results/demo/report.html"

install: build
	@mkdir -p "$(PREFIX)/share/softband" "$(PREFIX)/bin"
	@cp -r $(DIST)/. "$(PREFIX)/share/softband/"
	@for command in $(DIST)/bin/*; do ln -sf "../share/softband/bin/$$(basename "$$command")" "$(PREFIX)/bin/"; done
	@mkdir -p "$(PREFIX)/share/bash-completion/completions" "$(PREFIX)/share/zsh/site-functions" "$(PREFIX)/share/fish/vendor_completions.d"
	@"$(DIST)/bin/softband" completions bash >"$(PREFIX)/share/bash-completion/completions/softband"
	@"$(DIST)/bin/softband" completions zsh >"$(PREFIX)/share/zsh/site-functions/_softband"
	@"$(DIST)/bin/softband" completions fish >"$(PREFIX)/share/fish/vendor_completions.d/softband.fish"
	@"$(DIST)/bin/softband" completions --man "$(PREFIX)/share/man/man1" >/dev/null
	@echo "installed into $(PREFIX)/share/softband, commands in $(PREFIX)/bin, completions and man pages in $(PREFIX)/share"

$(VENV)/stamp: target/setup.stamp lab/pyproject.toml
	@python3 -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check -e 'lab[dev]'
	@touch $@

test: lint test-rust test-lab test-e2e

# Each Rust version has other lints, so a warning is an error only with the pinned Rust.
# RUSTUP_TOOLCHAIN selects another version.
PINNED = $(shell sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
lint: target/setup.stamp
	@$(CARGO) fmt --all --check
	@case "$$($(CARGO) --version)" in "cargo $(PINNED) "*) level=-D;; *) level=-W;; esac; \
	$(CARGO) clippy --quiet --workspace --all-targets -- $$level warnings

test-rust: target/setup.stamp
	@$(CARGO) test --workspace --quiet

test-lab: $(VENV)/stamp
	@$(VENV)/bin/ruff check --extend-select PLR0915 lab tests conformance benches scripts recipes examples
	@cd lab && ../$(VENV)/bin/mypy --no-error-summary src
	@cd recipes/pytest-softband && ../../$(VENV)/bin/mypy --no-error-summary
	@$(VENV)/bin/pytest -q -n 2 --dist loadfile lab/tests

# The libraries of the tree have the exports that a separate build would give.
test-abi: build
	@"$${CARGO_TARGET_DIR:-target}/release/xtask" abi --tree $(DIST)

# E2E_USER=NAME: root builds, and this ordinary user runs the tests on a copy. Root then runs those
# that need several accounts or compilers of root's account.
test-e2e: test-abi $(VENV)/stamp
ifdef E2E_USER
	@scripts/test-as-user.sh $(E2E_USER)
	@$(VENV)/bin/pytest -q -m also_as_root tests/e2e
else
	@$(VENV)/bin/pytest -q -n 2 --dist loadfile -m "not alone" tests/e2e
	@$(VENV)/bin/pytest -q -m alone tests/e2e
endif

# Models of the shared-memory protocol, and the same with 19 lines broken in turn. The protocol's
# unit tests run under Miri if Miri is installed.
models: target/setup.stamp
	@$(CARGO) run --quiet -p xtask -- models
	@$(CARGO) run --quiet -p xtask -- models --mutants
	@$(CARGO) run --quiet -p xtask -- models --miri

# SOFTBAND_FULL adds the cases that take longest to tests of the end-to-end suite.
test-full: test models
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --workspace --no-deps --document-private-items
	@SOFTBAND_FULL=1 $(VENV)/bin/pytest -q tests/e2e/test_parallel_computation.py tests/e2e/test_npb.py tests/e2e/test_lattice.py tests/e2e/test_weather.py tests/e2e/test_topology.py tests/e2e/test_mpirun.py
	@$(VENV)/bin/pytest -q -rP tests/full
	@$(CARGO) xtask simulate --minutes 10
	@SOFTBAND_TRAIN_SEED=1000 SOFTBAND_TRAIN_CASES=3000 $(CARGO) test --quiet -p softband-parallel --test trains

soak: build
	@python3 tests/soak.py

bench: build
	@$(CARGO) bench --quiet -p softband-fabric --bench packet_hops
	@$(CARGO) bench --quiet -p softband-net --bench tcp_bytes
	@python3 benches/programs.py
	@python3 benches/post_poll.py
	@python3 benches/wall.py
	@python3 benches/queue_pairs.py
	@python3 benches/busy.py
	@python3 benches/sweep.py
	@python3 benches/cmtime.py
	@python3 benches/sockets.py

# scripts/bench-peers.sh installs the peers. The bench skips missing peers.
# ENGINE: options, such as `--jobs a,c` or `--growth`.
bench-engine: build
	@python3 benches/engine.py $(ENGINE)

fuzz:
	@cd fuzz && for target in $$(cargo fuzz list); do \
	mkdir -p corpus/$$target && cargo +nightly fuzz run $$target corpus/$$target $$(ls -d seeds/$$target 2>/dev/null) -- -max_total_time=60 || exit 1; \
	done

# Not part of `make test`, which works without a network. The fuzz targets have a separate lock file
# with fewer dependencies.
deny:
	@command -v cargo-deny >/dev/null || { echo "deny: cargo-deny is missing; install it:  cargo install --locked cargo-deny" >&2; exit 1; }
	@$(CARGO) deny --workspace check -A license-exception-not-encountered
	@$(CARGO) deny --manifest-path fuzz/Cargo.toml --config deny.toml check -A unmatched-skip -A license-not-encountered

# Checks the crates whose manifest permits publishing. Uploads nothing. tests/libraries.rs of xtask
# checks their content.
# Cargo treats a package as immutable and keeps old contents of the same version in its home. So this
# check has a home of its own.
PUBLISH_HOME := $(CURDIR)/target/publish-home
publish-check: target/setup.stamp
	@rm -rf target/publish $(PUBLISH_HOME)/registry/src/-*
	@mkdir -p $(PUBLISH_HOME)
	@for file in config config.toml; do \
	cp "$${CARGO_HOME:-$$HOME/.cargo}/$$file" $(PUBLISH_HOME)/ 2>/dev/null || true; \
	done
	@CARGO_HOME=$(PUBLISH_HOME) $(CARGO) publish --quiet --workspace --dry-run --allow-dirty --locked --target-dir target/publish

# Programs that run on each Linux with glibc 2.28 or later. Needs the registries of crates and of
# Python packages once.
release: target/setup.stamp
	@scripts/release.sh

docs:
	@scripts/docs.sh

# STUDIES: a folder with results of studies. Without it the quick part of five papers runs.
site: build $(VENV)/stamp
	@scripts/site.sh $(DIST) target/site $(STUDIES)

clean:
	@rm -rf target results
