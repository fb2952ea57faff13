# Short names for what CMakePresets.json and .ci/ do. `make demo` and `make test` are all that a
# fresh Debian 12 needs; both install the packages they miss (third_party/packages.txt).
SOURCE_DIRS := nft proxy api tests third_party
SOURCES = $(shell find $(SOURCE_DIRS) -name '*.cc' -o -name '*.h')

.DEFAULT_GOAL := help
.PHONY: help deps build demo image boot test test-long format format-check tidy prose bench \
        bench-quick bench-alone clean

help:           ## This list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

deps:           ## Install the Debian packages that are missing
	@.ci/deps.sh build test tidy

build:          ## Release programs, in build/release/bin/
	@.ci/deps.sh build test
	cmake --preset release
	cmake --build --preset programs

demo:           ## Real connections through real rules, in network namespaces; under a minute
	@.ci/deps.sh build test
	cmake --preset release
	cmake --build --preset demo
	build/release/bin/svcmap-demo

image:          ## The container image, by podman, and the demo with it. docs/install.md
	@.ci/deps.sh build test image
	cmake --preset release
	cmake --build --preset demo
	@.ci/image.sh

boot:           ## svcmapd.service under a systemd of its own, in a container
	@.ci/deps.sh build test image
	cmake --preset release
	cmake --build --preset programs
	@.ci/boot.sh

test:           ## Everything: release, address and undefined behaviour sanitizers, thread sanitizer
	@.ci/deps.sh build test
	@.ci/test.sh

test-long: deps ## test, clang-tidy, repeated tests and fuzzers; more than an hour
	@.ci/deps.sh long
	@.ci/test-long.sh

format:         ## Lay out the sources
	@.ci/deps.sh tidy
	@clang-format-14 -i $(SOURCES)

format-check:   ## Fail if `make format` would change something
	@.ci/deps.sh tidy
	@clang-format-14 --dry-run -Werror $(SOURCES)

tidy: deps      ## clang-tidy over everything
	@.ci/tidy.sh

prose:          ## Check spelling, the word list and links of documents, comments and messages
	@.ci/deps.sh test
	@.ci/prose.sh

bench:          ## svcmapd beside the other proxies, with tables and plots; 45 min. docs/benchmarks.md
	@.ci/deps.sh build test bench
	cmake --preset release
	cmake --build --preset bench
	@.ci/bench.sh full

bench-quick:    ## The same in three minutes, held against stored bounds
	@.ci/deps.sh build test
	cmake --preset release
	cmake --build --preset bench
	@.ci/bench.sh quick

bench-alone:    ## svcmapd by itself: UDP cleanup, the state file, streams, memory, storms, idling
	@.ci/deps.sh build test
	cmake --preset release
	cmake --build --preset bench
	@.ci/bench.sh alone

clean:          ## Remove build/
	rm -rf build
