#!/bin/bash
# gtest.sh SECONDS PROGRAM FILTER: runs tests, one test suite after the other.
#
# Repeats failed tests once: emulated machines are so slow that waiting times of tests expire if other
# programs use the processors. Does not repeat a suite whose program crashed, and repeats nothing with
# SVCMAP_TEST_REPEAT=0. After SECONDS, starts no
# further suite. The results contain the tests that did not run as "not-run", and tests without a result
# as "failed". Notes name the repeated tests and the suites that did not run.
seconds=$1 program=/svcmap/tests/$2 filter=$3
skip=
[[ $filter != *-* ]] || skip=-${filter#*-}
total=$SVCMAP_TEST_RESULTS
export SVCMAP_TEST_RESULTS=$total.suite
status=0

# Runs the tests that match the filter $1. Adds the results to the file $2.
run() {
  rm -f "$SVCMAP_TEST_RESULTS"
  "$program" "--gtest_filter=$1"
  local code=$?
  if [[ ! -s $SVCMAP_TEST_RESULTS ]]; then
    echo "failed 0 $1: the program ended with status $code and no results" >>"$2"
    return
  fi
  cat "$SVCMAP_TEST_RESULTS" >>"$2"
  # For example a crash in a destructor, or a failure after the last test of a suite.
  if ((code)) && ! grep -q '^failed ' "$SVCMAP_TEST_RESULTS"; then
    echo "failed 0 $1: the program ended with status $code after the tests" >>"$2"
  fi
}

list=$("$program" --gtest_list_tests "--gtest_filter=$filter" | grep -v '^Running main' | sed 's/ *#.*//')
for suite in $(grep -v '^ ' <<<"$list"); do
  if ((SECONDS > seconds)); then
    echo "note: not run within $seconds s: ${suite%.}"
    sed -n "\\|^${suite//./\\.}\$|,/^[^ ]/{/^ /s|^ *|not-run 0 $suite|p}" <<<"$list" >>"$total"
    continue
  fi
  first=$total.first again=$total.again
  rm -f "$first" "$again"
  run "$suite*$skip" "$first"
  if [[ $SVCMAP_TEST_REPEAT == 0 ]] || grep -q ': the program ended with ' "$first"; then
    cat "$first" >>"$total"
    continue
  fi
  failed=$(sed -n 's/^failed [0-9]* //p' "$first")
  grep -v '^failed ' "$first" >>"$total"
  [[ $failed ]] || continue
  while read -r name; do echo "note: repeated after a failure: $name"; done <<<"$failed"
  run "$(paste -sd: <<<"$failed")" "$again"
  cat "$again" >>"$total"
done

listed=$(awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }' <<<"$list" | grep -v DISABLED_ | sort)
touch "$total"
comm -23 <(echo "$listed") <(cut -d' ' -f3 "$total" | sort) | sed '/^$/d; s/^/failed 0 /; s/$/: no result/' >>"$total"
! grep -q '^failed ' "$total" || status=1
exit "$status"
