# Short names for CMakePresets.json and .ci/. Every target installs the Debian packages that it needs
# (third_party/packages.txt).
SOURCE_DIRS := nft proxy api tests third_party
SOURCES = $(shell find $(SOURCE_DIRS) -name '*.cc' -o -name '*.h')

.DEFAULT_GOAL := help
.PHONY: help deps build clients demo demo-fleet deb deb-test image arm64 boot test test-firewalls test-kernels test-long \
        format format-check tidy prose bench bench-quick bench-alone bench-published cluster cluster-documents cluster-e2e \
        cluster-bench cluster-features cluster-migration cluster-nodes cluster-versions cluster-down clean

help:           ## List all targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' Makefile

deps:           ## Install missing Debian packages
	@.ci/deps.sh build test clients kernels sanitizers tidy

build:          ## Build the release binaries in build/release/bin/
	@.ci/deps.sh build test
	cmake --preset release
	cmake --build --preset programs

clients:        ## Generate the stubs of api/clients, and build a wheel and a Go module in build/clients/packages
	@.ci/deps.sh build clients
	@api/clients/generate.sh
	@/usr/bin/python3 api/clients/package.py build/clients/packages

demo:           ## Open real connections through real rules in network namespaces
	@.ci/deps.sh build test
	cmake --preset release
	cmake --build --preset demo
	build/release/bin/svcmap-demo

demo-fleet:     ## Start three nodes and etcd in network namespaces, and open connections (docs/fleet.md)
	@.ci/deps.sh build test
	cmake --preset release
	cmake --build --preset programs
	@tests/demo/fleet.sh

deb:            ## Build the Debian packages in build/deb/ and run lintian
	@.ci/deps.sh build test deb
	@.ci/packages.sh

deb-test:       ## Test installation, upgrade and removal of the packages in a clean root
	@.ci/deps.sh test deb image
	@.ci/deb.sh

image:          ## Build and test the container image with podman (docs/install.md)
	@.ci/deps.sh build test image
	cmake --preset release
	cmake --build --preset demo
	@.ci/image.sh

arm64:          ## Cross-compile the binaries and the image for arm64 and run the unit tests under qemu
	@.ci/deps.sh build test image arm64
	@.ci/arm64.sh
	@ARCH=arm64 PROGRAMS=build/arm64/bin .ci/image.sh

boot:           ## Test the systemd units in a container
	@.ci/deps.sh build test image
	cmake --preset release
	cmake --build --preset programs
	@.ci/boot.sh

test:           ## Build the release binaries and run all tests
	@.ci/deps.sh build test clients
	@.ci/test.sh

test-kernels:   ## Run tests on Debian's kernels from 5.10 to the newest, in virtual machines
	@.ci/deps.sh build test kernels
	cmake --preset release
	cmake --build --preset kernels
	@tests/kernels/run.py $(KERNELS)

test-firewalls: ## Reload host firewalls under traffic, in namespaces (docs/compatibility.md)
	@.ci/deps.sh build test firewalls
	cmake --preset release
	cmake --build --preset programs
	@tests/firewalls/run.py build/release/bin

test-long: deps ## Run test, sanitizers, clang-tidy, repeated tests and fuzzers; more than an hour
	@.ci/deps.sh long firewalls
	@.ci/test-long.sh

format:         ## Format the sources
	@.ci/deps.sh tidy
	@clang-format-14 -i $(SOURCES)

format-check:   ## Fail if `make format` would change a file
	@.ci/deps.sh tidy
	@clang-format-14 --dry-run -Werror $(SOURCES)

tidy: deps      ## Run clang-tidy over all sources
	@.ci/tidy.sh

prose:          ## Check spelling, the word list and links of documents, comments and messages
	@.ci/deps.sh test
	@.ci/prose.sh

bench:          ## Compare svcmapd with other proxies; 75 minutes (docs/benchmarks.md)
	@.ci/deps.sh build test bench
	cmake --preset release
	cmake --build --preset bench
	@.ci/bench.sh full

bench-quick:    ## Check stored performance bounds; three minutes
	@.ci/deps.sh build test
	cmake --preset release
	cmake --build --preset bench
	@.ci/bench.sh quick

bench-alone:    ## Measure svcmapd only: UDP cleanup, streams, delays of changes
	@.ci/deps.sh build test
	cmake --preset release
	cmake --build --preset bench
	@.ci/bench.sh alone

bench-published: ## Measure the cluster sizes of published figures of kube-proxy
	@.ci/deps.sh build test
	cmake --preset release
	cmake --build --preset bench
	@.ci/bench.sh published

cluster:        ## Start a Kubernetes cluster in namespaces: make cluster KUBERNETES=DIR [FAMILY=ipv4|ipv6|dual] [CNI=DIR]
	@.ci/deps.sh cluster
	@tests/cluster/cluster.sh up

cluster-documents: ## Run the commands of the documents in the cluster under traffic (tests/cluster/README.md)
	@.ci/deps.sh clients
	@tests/cluster/documents.sh

cluster-e2e:    ## Run Kubernetes' e2e tests with kube-proxy, then with svcmap (docs/e2e.md) [SET=loadbalancer]
	@tests/cluster/e2e.sh

cluster-features: ## Check annotations, Events and the startup taint in the cluster (tests/cluster/README.md)
	@tests/cluster/features.sh

cluster-migration: ## Replace kube-proxy with svcmap and back under traffic (tests/cluster/README.md)
	@tests/cluster/migration.sh

cluster-nodes:  ## Restart parts of nodes under traffic with kube-proxy, then with svcmap (tests/cluster/README.md)
	@tests/cluster/nodes.sh

cluster-bench:  ## Measure kube-proxy and svcmap on one API server: make cluster-bench KUBERNETES=DIR
	@.ci/deps.sh cluster
	@tests/cluster/measure.sh

cluster-versions: ## Run svcmap and kube-proxy with API servers of several versions: make cluster-versions VERSIONS='DIR...'
	@.ci/deps.sh cluster
	@tests/cluster/versions.sh $(VERSIONS)

cluster-down:   ## Remove the cluster
	@tests/cluster/cluster.sh down

clean:          ## Remove build/
	rm -rf build
