# Everything a newcomer needs: `make run`, `make test`, `make bench`.
# Each does its own set-up, is silent about what is already there, and keeps what it fetches in target/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
# Where rustup puts cargo, for shells that were started before it.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help run build test audit cluster-test restart-test soak package package-test bench bench-audit train train-tagger eval setup clean

help:
	@echo "make run     build and start the gateway with a sample provider behind it [CONFIG=FILE]"
	@echo "make test    check formatting, lints and licences, and run every test"
	@echo "make audit   hold every dependency against RustSec's advisories, and the licences and sources that are allowed"
	@echo "make cluster-test  only the tests of several gateways on one database, part of make test"
	@echo "make restart-test  100,000 requests and long streams across 10 upgrades and 50 reloads, on a release build"
	@echo "make soak    200 times kill -9 while everything is written to, on a release build [ROUNDS=200]"
	@echo "make package  a .deb, a tarball and an SBOM below target/package"
	@echo "make package-test  lintian; installs, runs, upgrades and purges the .deb in a Debian of its own [PROFILE=dev]"
	@echo "make bench   measure the gateway beside a bare proxy and nginx, and the scanner"
	@echo "make bench-audit  ask an audit log of ten million entries (7 GB) for first pages [ENTRIES=10000000]"
	@echo "make train   train the model of the third layer anew, and measure it on sources it left out"
	@echo "make train-tagger  train the tagger that finds names, addresses and places anew"
	@echo "make eval    measure how often the scanner is right and wrong"

setup:
	@tests/setup/system.sh build

build: setup
	@cargo build --release --locked

run: build
	@target/release/portcullis run --with-sample-provider $(if $(CONFIG),--config $(CONFIG))

test:
	@tests/setup/system.sh build clients
	@tests/setup/test.sh

audit:
	@cargo deny --version > /dev/null 2>&1 || cargo install --quiet --locked cargo-deny
	@cargo deny --config .deny.toml --log-level error check

cluster-test:
	@tests/setup/system.sh build clients
	@cargo nextest run --locked --test integration -E 'test(/^cluster::/)'

restart-test: setup
	@PORTCULLIS_RESTART_FULL=1 cargo nextest run --locked --release --profile restart --test integration \
	  -E 'test(=restart::upgrades_and_reloads_under_load_fail_nothing)'

ROUNDS ?= 200
soak: setup
	@PORTCULLIS_SOAK_ROUNDS=$(ROUNDS) cargo nextest run --locked --release --profile restart --test integration \
	  -E 'test(=soak::kills_in_a_row_leave_everything_consistent)'

package: build
	@tests/setup/system.sh package
	@conf/deploy/package.sh

PROFILE ?= release
package-test: setup
	@tests/setup/system.sh package
	@cargo build --locked --profile $(PROFILE) --bin portcullis
	@PROFILE=$(PROFILE) tests/packages/test.sh

bench:
	@tests/setup/system.sh build bench
	@cargo build --release --locked --bin portcullis --example bare_proxy --example load
	@python3 benches/compare/run.py $(BENCH)
	@cargo bench --locked --bench scan -- --each

ENTRIES ?= 10000000
bench-audit: setup
	@cargo bench --locked --bench audit -- $(ENTRIES)

# They read rows that are not in this repository: PORTCULLIS_SHARED=FOLDER, or ../shared/data/train.
train: setup
	@cargo run --release --locked --example train

train-tagger: setup
	@cargo run --release --locked --example train_tagger

eval: setup
	@cargo run --release --locked --example evaluate

clean:
	@cargo clean
