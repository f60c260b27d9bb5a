# Strowger's commands. `make help` lists them. Everything stays in this folder, and all but `make run` on loopback.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Where Rust's own installer puts cargo; a shell opened before that does not look there.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
CARGO ?= cargo
PYTHON := .cache/venv/bin/python
# Where cargo puts binaries; honours CARGO_TARGET_DIR.
TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release/strowger
DEBUG := $(TARGET)/debug/strowger
# The last crate takes minutes, of which cargo says nothing.
SAY_FIRST = @test -x $(RELEASE) || echo "the first build takes four to eight minutes on two cores, most of them silent in the last crate"
BUILD_RELEASE = $(CARGO) build --release $(LOCKED) -p strowger

# CI sets this to --locked: Cargo.lock must be as committed.
LOCKED ?=
# Arguments of the server for `make run`, e.g. make run ARGS="--domain example.org --workers 1"
ARGS ?=
# Where `make run` keeps subscribers and bindings.
DATA ?= data
# Seconds each fuzz target runs: in `make test`, and in `make fuzz`.
FUZZ_SMOKE ?= 15
FUZZ_SECONDS ?= 600
# Seeds of the simulator in one run.
SIM_SEEDS ?= 1000

# Options of `make lab-honesty`: --short tries everything in 15 minutes, and its verdicts say nothing.
HONESTY_ARGS ?=

# One line before each step, so that a long log can be searched.
section = @printf '\n=== %s\n' "$(1)"

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---------------------------------------------------------------- use it
.PHONY: run
run: setup-build ## build the release and serve on port 5060 with the embedded store in ./data
	$(SAY_FIRST)
	$(BUILD_RELEASE)
	$(RELEASE) serve --data-dir $(DATA) $(ARGS)

.PHONY: build
build: setup-build ## build the release binary
	$(SAY_FIRST)
	$(BUILD_RELEASE)

.PHONY: build-profiled
build-profiled: setup-bench ## a release binary optimised by a profile of the bench's calls, in target/profiled (25 minutes)
	CARGO="$(CARGO)" verify/profile/build.sh $(LOCKED)

.PHONY: deb
deb: setup-package ## the Debian package, in target/deb
	$(SAY_FIRST)
	$(BUILD_RELEASE)
	deploy/deb.sh $(RELEASE) $(TARGET)/deb

.PHONY: image
image: setup-build ## an image for Docker, Podman and Kubernetes
	$(SAY_FIRST)
	$(BUILD_RELEASE)
	deploy/image.sh $(RELEASE)

# ---------------------------------------------------------------- check it
.PHONY: check
check: fmt clippy layers prose verdicts ## formatting, lints, layering and unit tests (a minute and a half when warm)
	$(call section,unit tests)
	$(RUN_TESTS) --only quick

.PHONY: test
test: setup-test fmt clippy layers prose verdicts deny all-tests fuzz-smoke ## everything that CI runs; installs what it needs
	$(call section,all steps of make test passed)

.PHONY: fmt
fmt:
	$(call section,rustfmt)
	$(CARGO) fmt --all --check

.PHONY: clippy
clippy:
	$(call section,clippy; warnings are errors)
	@if $(CARGO) clippy --version >/dev/null 2>&1; then \
	    echo "$(CARGO) clippy --workspace --all-targets $(LOCKED) -- -D warnings"; \
	    $(CARGO) clippy --workspace --all-targets $(LOCKED) -- -D warnings; \
	else \
	    echo "lints: NOT CHECKED, this Rust has no clippy (some systems' packages have none)"; test -z "$${CI:-}$(LOCKED)"; \
	fi

.PHONY: layers
layers:
	$(call section,layering)
	python3 verify/structure_test.py 2>&1 | tail -n 3
	python3 verify/layers.py

.PHONY: prose
prose:
	$(call section,prose)
	python3 verify/prose.py

# What benches pass and fail on, by examples.
.PHONY: verdicts
verdicts:
	$(call section,verdicts of the benches)
	python3 verify/bench/bench_test.py
	python3 verify/interop/verdicts_test.py

# The advisory database lives on a git host; without it the other three checks still decide.
.PHONY: deny
deny:
	$(call section,cargo deny)
	@mkdir -p $(TARGET)
	$(CARGO) deny --all-features check -A unused-wrapper bans licenses sources
	@if timeout 60 $(CARGO) deny check advisories >$(TARGET)/advisories.log 2>&1; then \
	    echo "advisories: none"; \
	elif grep -qE 'failed to (fetch|open|clone|lock)|unable to fetch|network|could not connect|No such file' $(TARGET)/advisories.log; then \
	    echo "advisories: NOT CHECKED, the advisory database cannot be fetched from here"; \
	else \
	    cat $(TARGET)/advisories.log; exit 1; \
	fi

# All tests of the workspace, several programs at a time: verify/run_tests.py says which. INTEROP, the tests of
# SCTP in user-mode Linux and the build of the fuzz targets run among them in `make test`.
RUN_TESTS = python3 verify/run_tests.py $(LOCKED)
INTEROP = $(PYTHON) verify/interop/run.py --smoke $(if $(CI)$(LOCKED),--strict)
# Debian has user-mode Linux for x86 alone.
UML = $(if $(filter x86_64,$(shell uname -m)),--waiting 'sctp=verify/uml/run.sh -t 900 python3 verify/uml/sctp.py --bin {bin}' \
	--waiting 'tune over a boot=verify/uml/tune.sh {bin}')
AMONG_TESTS = $(UML) --waiting 'interop 1/2=$(INTEROP) --bin {bin} --part 1/2' \
	--waiting 'interop 2/2=$(INTEROP) --bin {bin} --part 2/2' --computing 'fuzz targets=verify/fuzz/smoke.sh build' \
	--waiting 'package=verify/packages/deb.py $(if $(CI)$(LOCKED),--strict) --bin {bin}' \
	--computing 'monitoring=verify/packages/monitoring.py'

unit all-tests: export STROWGER_SIM_SEEDS = $(SIM_SEEDS)
.PHONY: unit
unit: ## unit, property and live tests, and the simulator, without interop
	$(call section,unit and property tests; simulation of $(SIM_SEEDS) seeds; live tests of the binary)
	$(RUN_TESTS)

.PHONY: all-tests
all-tests: setup-test
	$(call section,unit and property tests; simulation of $(SIM_SEEDS) seeds; live tests of the binary; interop)
	$(RUN_TESTS) $(AMONG_TESTS)

.PHONY: live
live: ## only the tests that talk to the running binary
	$(RUN_TESTS) --only live

# All unsafe code is below shell/worker-runtime/src/sys, but for one call in shell/tune/src/ethtool/sys.rs. Miri has no
# sockets and maps no files, so it runs what keeps
# pointers, what is mapped, and the tables and rings that others rely on. `make test` needs no second toolchain.
MIRI_TESTS = sys::pinned sys::mapping sys::send::tests::only_one shared::tests::full_ring transport::stream::table \
    transport::stream::output transport::stream::directory
.PHONY: miri
miri: ## the unsafe code that Miri can run, under Miri (needs a nightly toolchain; minutes)
	@$(CARGO) +nightly miri --version >/dev/null 2>&1 || \
	    { echo 'make miri: no nightly toolchain with Miri: rustup toolchain install nightly -c miri,rust-src'; exit 1; }
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test $(LOCKED) -p worker-runtime --lib -- $(MIRI_TESTS)

.PHONY: reference
reference: ## writes the tables of docs/reference anew, from the program
	$(CARGO) run $(LOCKED) --quiet -p control --example reference
	$(CARGO) run $(LOCKED) --quiet -p lab --example lab-reference
	$(CARGO) build $(LOCKED) -p strowger
	STROWGER_BIN=$(abspath $(DEBUG)) STROWGER_WRITE_REFERENCE=1 $(CARGO) test -p live --test documents every_metric
	STROWGER_BIN=$(abspath $(DEBUG)) STROWGER_WRITE_REFERENCE=1 $(CARGO) test -p live --test balance every_metric
	STROWGER_WRITE_REFERENCE=1 $(CARGO) test -p tune-rules reference_page

.PHONY: simulate
simulate: ## only the simulator; SIM_SEEDS=n for more seeds than 1,000
	$(call section,simulation of $(SIM_SEEDS) seeds)
	STROWGER_SIM_SEEDS=$(SIM_SEEDS) $(CARGO) test $(LOCKED) -p simulator

.PHONY: interop
interop: setup-test ## real phones, SIPp and Kamailio with the debug build, at small sizes
	$(call section,interop: real phones; SIPp; Kamailio as a trunk)
	$(CARGO) build $(LOCKED) -p strowger
	$(INTEROP) --bin $(DEBUG)

.PHONY: interop-full
interop-full: setup-test release-for-tests ## every interop scenario at its full size (about 8 minutes)
	$(PYTHON) verify/interop/run.py --bin $(RELEASE)

.PHONY: proxy200
proxy200: setup-test release-for-tests ## SIPstone Proxy 200, plain and with digest, 500 calls/s for 60 s, 2 workers
	$(PYTHON) verify/interop/run.py --bin $(RELEASE) proxy200 proxy200_digest

.PHONY: register100k
register100k: setup-test release-for-tests ## 100,000 users register with digest, kill -9, restart, count
	$(PYTHON) verify/interop/run.py --bin $(RELEASE) register_crash

.PHONY: release-for-tests
release-for-tests:
	$(BUILD_RELEASE)

# ---------------------------------------------------------------- fuzz it
.PHONY: fuzz-smoke
fuzz-smoke:
	$(call section,fuzz: every target for $(FUZZ_SMOKE) s from the committed corpus)
	verify/fuzz/smoke.sh $(FUZZ_SMOKE)

.PHONY: fuzz
fuzz: setup-test ## every fuzz target for FUZZ_SECONDS (600)
	verify/fuzz/smoke.sh $(FUZZ_SECONDS)

# ---------------------------------------------------------------- measure it
.PHONY: lab-honesty
lab-honesty: setup-build ## verdicts of `lab` where the truth is known: five equal pairs, one 5 % slower (45 minutes)
	$(BUILD_RELEASE)
	python3 lab/honesty/run.py --bin $(RELEASE) --out $(TARGET)/honesty-$$(date +%Y%m%d-%H%M%S) $(HONESTY_ARGS)

# Experiments are files for `strowger lab run`; the report is LAB_OUT/report.html. BENCH_ARGS are further options.
LAB = $(RELEASE) lab run
.PHONY: bench
bench: setup-bench ## cost of a call against Kamailio and a bare relay, plain and mixed traffic: lab/bench.toml (12 minutes)
	$(BUILD_RELEASE)
	$(LAB) lab/bench.toml --out target/bench.lab $(BENCH_ARGS)

.PHONY: bench-emulated
bench-emulated: setup-emulation ## the instructions of `bench`, counted in emulated machines; mixed and plain side by side (30 minutes)
	$(BUILD_RELEASE)
	verify/bench/emulated/run.sh $(RELEASE) lab/bench.toml --set 'factor.work=["mixed"]' --set 'claim=[]' $(BENCH_ARGS) & mixed=$$!; \
	verify/bench/emulated/run.sh $(RELEASE) lab/bench.toml --set 'factor.work=["plain"]' --set 'claim=[]' $(BENCH_ARGS) && wait $$mixed

# What was a target of its own, by the name of its experiment.
EXPERIMENTS = bench-answer bench-balance-cost bench-digest bench-overload bench-registrations bench-renewal bench-soak bench-stateless \
	bench-storm bench-transports bench-workers
.PHONY: $(EXPERIMENTS)
bench-answer: ## from INVITE to 200, with and without busy_poll: lab/answer.toml (7 minutes)
bench-balance-cost: ## cost of a call of the balancer against Kamailio's dispatcher and a bare relay: lab/balance-cost.toml (24 minutes)
bench-digest: ## cost of a call with digest, Strowger and Kamailio: lab/digest.toml (6 minutes)
bench-overload: ## calls that are completed when more come than can be carried, Strowger and Kamailio: lab/overload.toml (26 minutes, root)
bench-renewal: ## certificates renewed every 200 ms under calls over TLS: lab/renewal.toml (6 minutes)
bench-soak: ## users, reloads and stalls: no call fails, memory stays flat: lab/soak.toml (72 minutes)
bench-storm: ## more users than can be carried register and call with digest: lab/storm.toml (18 minutes, root)
bench-registrations: ## cost of a registration with digest, Strowger and Kamailio: lab/registrations.toml (6 minutes)
bench-stateless: ## cost of a call without transactions, Strowger and Kamailio: lab/stateless.toml (6 minutes)
bench-transports: ## cost of a call over UDP, TCP and TLS, Strowger and Kamailio: lab/transports.toml (16 minutes)
bench-workers: ## cost of a call with 1 and 2 workers, Strowger and Kamailio: lab/workers.toml (20 minutes)
$(EXPERIMENTS): bench-%: setup-bench
	$(BUILD_RELEASE)
	$(LAB) lab/$*.toml --out target/$*.lab $(BENCH_ARGS)

.PHONY: lab-papers
lab-papers: setup-bench ## experiments of published papers, reports in lab/record; resumes; PAPERS=004 for one of them (3 to 6 hours)
	$(BUILD_RELEASE)
	lab/papers.sh $(RELEASE) $(PAPERS) -- $(LAB_ARGS)

.PHONY: balance-failure
balance-failure: setup-test release-for-tests ## what callers notice when a node or balancer fails, 20,000 calls up (22 minutes, root)
	python3 verify/interop/balance_failure.py --bin $(RELEASE) $(FAILURE_ARGS)

.PHONY: balance-counters
balance-counters: setup-test release-for-tests ## a million calls through the balancer and a bad network: counters end at zero (9 minutes)
	$(call section,what the balancer counts)
	python3 verify/interop/balance_counters.py --bin $(RELEASE) $(COUNTER_ARGS)

.PHONY: bench-load
bench-load: setup-bench ## calls for a second of processor time, `strowger load` against SIPp on the same flows (6 minutes)
	$(BUILD_RELEASE)
	$(CARGO) build --release $(LOCKED) -p load --example scenario_cost
	python3 verify/bench/generators.py --bin $(RELEASE) --judge $(BENCH_ARGS)

.PHONY: bench-load-emulated
bench-load-emulated: setup-emulation ## instructions of a call of `strowger load` and SIPp, kernel included (slow)
	$(BUILD_RELEASE)
	verify/bench/emulated/run.sh $(RELEASE) generators $(BENCH_ARGS)
	verify/bench/emulated/run.sh $(RELEASE) generators --flows call --generators strowger --rates 1500,4000 --judge

.PHONY: bench-connections
bench-connections: setup-bench ## memory of 15,000 idle connections with their registrations, Strowger and Kamailio (5 minutes)
	$(BUILD_RELEASE)
	python3 verify/bench/connections.py --bin $(RELEASE) --transports tcp,tls,wss $(BENCH_ARGS)

.PHONY: bench-handshakes
bench-handshakes: setup-bench ## TLS handshakes for a second of processor time, beside rustls alone (1 minute)
	$(BUILD_RELEASE)
	$(CARGO) build --release $(LOCKED) -p tls --example handshakes
	python3 verify/bench/handshakes.py --bin $(RELEASE) --client $(dir $(RELEASE))examples/handshakes $(BENCH_ARGS)

.PHONY: bench-reconnect
bench-reconnect: setup-bench ## calls while 15,000 phones on TLS reconnect (1 minute)
	$(BUILD_RELEASE)
	python3 verify/bench/reconnect.py --bin $(RELEASE) $(BENCH_ARGS)

.PHONY: bench-location
bench-location: setup-build ## bytes and times of a location table with 10,000,000 users (5 minutes, 2 GB)
	$(CARGO) build --release $(LOCKED) -p store --example location_cost
	$(TARGET)/release/examples/location_cost 10000000

.PHONY: bench-registered
bench-registered: setup-bench ## 10,000,000 users registered in one server: memory, time of each registration (22 minutes, root, 8 GB)
	$(BUILD_RELEASE)
	python3 verify/bench/registered.py --bin $(RELEASE) --judge $(BENCH_ARGS)

.PHONY: bench-restart
bench-restart: setup-build ## from the start of a server with 1,000,000 bindings to its first right answer (5 minutes)
	$(BUILD_RELEASE)
	$(CARGO) build --release $(LOCKED) -p store --example refresh
	python3 verify/bench/restart.py --bin $(RELEASE) --program target/release/examples/refresh $(BENCH_ARGS)

# ---------------------------------------------------------------- housekeeping
.PHONY: setup-build setup-package setup-test setup-bench setup-emulation
setup-build setup-package setup-test setup-bench setup-emulation: setup-%:
	@verify/setup.sh $*

.PHONY: clean
clean: ## remove what was built (not ./data)
	$(CARGO) clean
	rm -rf .cache verify/fuzz/target
