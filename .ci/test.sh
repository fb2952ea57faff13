#!/bin/bash
# Checks the language and the includes of the repository, then builds and runs the given test suites; without
# arguments, the suite release. asan, tsan and ubsan repeat a part of its tests with sanitizers.
# third_party/cmake/SvcmapTest.cmake defines the content of each suite. Continues after a failed test. The output ends
# with a table of the duration of each phase, ctest's summary of each suite and one line with the result. The log of
# each suite is build/<suite>/test.log.
set -uo pipefail
cd "$(dirname "$0")/.."

suites=("$@")
results=()
if ((${#suites[@]} == 0)); then
  suites=(release)
  # conformance_test fails if a test left no results.
  results=(SVCMAP_REQUIRE_TEST_RESULTS=1)
fi

if ! message=$(unshare --net true 2>&1); then
  echo "The packet tests need network namespaces: run this as root. ($message)" >&2
  exit 1
fi

# build SUITE LOG: shows ninja's progress on a terminal. Otherwise, writes the output to LOG and prints
# only the end of LOG after a failure.
build() {
  if [[ -t 1 ]]; then
    cmake --preset "$1" && cmake --build --preset "$1"
  else
    { cmake --preset "$1" && cmake --build --preset "$1"; } >"$2" 2>&1 || ! tail -n 60 "$2"
  fi
}

minutes() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }

# phase SECONDS TEXT: prints the duration of a phase now, and again at the end.
phases=
phase() {
  phases+="$(printf '%-16s %s' "$2" "$(minutes "$1")")"$'\n'
  echo "   $2: $(minutes "$1")"
}

summaries=
failed=()
passed=()

echo "== prose"
.ci/prose.sh || failed+=("prose")
echo "== includes"
.ci/includes.sh || failed+=("includes")

for suite in "${suites[@]}"; do
  mkdir -p "build/$suite"
  echo "== $suite: build"
  start=$SECONDS
  if ! build "$suite" "build/$suite/build.log"; then
    echo "svcmap: FAILED: $suite does not build"
    exit 1
  fi
  phase $((SECONDS - start)) "$suite build"
done

for suite in "${suites[@]}"; do
  log=build/$suite/test.log
  echo "== $suite: test"
  start=$SECONDS
  # Programs with sanitizers may fail to start if the kernel randomises many address bits.
  no_aslr=()
  [[ $suite != release ]] && setarch -R true 2>/dev/null && no_aslr=(setarch -R)
  # Some programs wait for timeouts most of the time, so one more program than processors runs.
  jobs=$(($(nproc) + 1))
  if env "${results[@]}" "${no_aslr[@]}" ctest --preset "$suite" -j "$jobs" 2>&1 | tee "$log"; then
    passed+=("$suite")
  else
    failed+=("$suite")
  fi
  phase $((SECONDS - start)) "$suite test"
  summaries+="$suite: $(grep -E 'tests passed, .* failed out of|No tests were found' "$log")"$'\n'
done

echo
printf '%s' "$phases" "$summaries"
if ((${#failed[@]})); then
  echo "svcmap: FAILED: $(IFS=,; echo "${failed[*]}") after $(minutes $SECONDS)"
  exit 1
fi
echo "svcmap: all tests passed (${passed[*]}) in $(minutes $SECONDS)"
