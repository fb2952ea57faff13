#!/bin/bash
# gtest.sh SECONDS PROGRAM FILTER: runs tests, one test suite after the other.
#
# Repeats failed tests once: emulated machines are so slow that waiting times of tests expire if other
# programs use the processors. After SECONDS, starts no further suite. The results contain the tests that
# did not run as "not-run", and notes name the repeated tests and the suites that did not run.
seconds=$1 program=/svcmap/tests/$2 filter=$3
skip=
[[ $filter != *-* ]] || skip=-${filter#*-}
total=$SVCMAP_TEST_RESULTS
export SVCMAP_TEST_RESULTS=$total.suite
status=0

# Runs the tests that match the filter $1. Adds the results to the file $2.
run() {
  rm -f "$SVCMAP_TEST_RESULTS"
  "$program" "--gtest_filter=$1" || {
    # A crashed program writes no results.
    [[ -e $SVCMAP_TEST_RESULTS ]] || echo "failed 0 $1: the program crashed" >>"$2"
  }
  [[ ! -e $SVCMAP_TEST_RESULTS ]] || cat "$SVCMAP_TEST_RESULTS" >>"$2"
}

list=$("$program" --gtest_list_tests "--gtest_filter=$filter" | grep -v '^Running main' | sed 's/ *#.*//')
for suite in $(grep -v '^ ' <<<"$list"); do
  if ((SECONDS > seconds)); then
    echo "note: not run within $seconds s: ${suite%.}"
    sed -n "\\|^${suite//./\\.}\$|,/^[^ ]/{/^ /s|^ *|not-run 0 $suite|p}" <<<"$list" >>"$total"
    continue
  fi
  first=$total.first
  rm -f "$first"
  run "$suite*$skip" "$first"
  failed=$(sed -n 's/^failed [0-9]* //p' "$first")
  grep -v '^failed ' "$first" >>"$total"
  [[ $failed ]] || continue
  while read -r name; do echo "note: repeated after a failure: $name"; done <<<"$failed"
  run "$(sed 's/: the program crashed$//' <<<"$failed" | paste -sd:)" "$total"
  ! grep -q '^failed ' "$SVCMAP_TEST_RESULTS" 2>/dev/null || status=1
  [[ -e $SVCMAP_TEST_RESULTS ]] || status=1
done
exit "$status"
