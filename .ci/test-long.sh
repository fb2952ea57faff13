#!/bin/bash
# Slow checks after `make test`: sanitizers, format and clang-tidy, promtool for the alert rules, the dashboard's queries
# on a Prometheus server, host firewalls, tests with the labels `nightly` and `long`, SCENARIOS (3000) random scenarios
# with a new seed, CRASHES (1000) kills under traffic, ten seconds with frequent foreign changes, repeated kernel and
# thread tests, 100 seeds of random changes, and each fuzzer for FUZZ_SECONDS (600).
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
part() {
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}

part 'tests' .ci/test.sh
part 'sanitizers' .ci/test.sh asan tsan ubsan
part 'benchmark binaries' cmake --build --preset bench
part 'nightly and long binaries' cmake --build --preset nightly
part 'format' make --no-print-directory format-check
part 'clang-tidy' .ci/tidy.sh
part 'alert rules' promtool check rules deploy/prometheus/svcmap.rules.yaml
part 'alerts' promtool test rules tests/metrics/alerts.test.yaml
part "the dashboard's queries" tests/metrics/dashboard.py build/release/bin
part 'host firewalls' tests/firewalls/run.py build/release/bin
part 'nightly and long tests' ctest --preset nightly
part "random scenarios, ${SCENARIOS:-3000}" \
  env SVCMAP_SEED="$(date +%s)" SVCMAP_SCENARIOS="${SCENARIOS:-3000}" \
  build/release/tests/differential_test
part "crashes, ${CRASHES:-1000}" \
  env SVCMAP_SEED="$(date +%s)" SVCMAP_CRASHES="${CRASHES:-1000}" SVCMAP_STORM_SECONDS=10 \
  build/release/tests/recovery_test --gtest_filter='CrashTest.*:ForeignChangeTest.*'
part 'kernel tests, 5 times' ctest --preset release -L '^contract$' --repeat until-fail:5
part 'random changes, 100 seeds' \
  env SVCMAP_PROPERTY_SEEDS=100 build/release/tests/contract_test --gtest_filter='*ConvergenceTest*'
part 'packet tests, 5 times' ctest --preset release -L '^netns$' --repeat until-fail:5
part 'threads under tsan, 20 times' \
  setarch -R ctest --preset tsan --repeat until-fail:20
part 'fuzzers' .ci/fuzz.sh "${FUZZ_SECONDS:-600}"

echo
if ((${#failed[@]})); then
  printf 'svcmap: the long tests FAILED: %s\n' "$(IFS=,; echo "${failed[*]}")"
  exit 1
fi
echo "svcmap: all long tests passed in $((SECONDS / 60)) min"
