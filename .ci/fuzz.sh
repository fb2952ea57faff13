#!/bin/bash
# Runs each libFuzzer target for a time in seconds (first argument). New inputs are stored in
# build/fuzz/corpus/<target>, failing inputs in build/fuzz/crashes/.
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-120}

cmake --preset fuzz >/dev/null && cmake --build --preset fuzz || exit
mkdir -p build/fuzz/crashes

count=0
failed=()
for seeds in build/fuzz/fuzzers/*.corpus; do
  [[ -e $seeds ]] || break
  fuzzer=${seeds%.corpus}
  name=${fuzzer##*/}
  found=build/fuzz/corpus/$name
  mkdir -p "$found"
  echo "== $name: $seconds s"
  "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix=build/fuzz/crashes/"$name"- "$found" "$(<"$seeds")" >"build/fuzz/$name.log" 2>&1
  status=$?
  grep -E 'number_of_executed_units|ERROR|SUMMARY|Test unit written' "build/fuzz/$name.log"
  ((status == 0)) || failed+=("$name")
  count=$((count + 1))
done
if ((${#failed[@]})); then
  echo "fuzz: FAILED: ${failed[*]}; logs are in build/fuzz/"
  exit 1
fi
if ((count == 0)); then
  echo "fuzz: there are no fuzz targets"
  exit 1
fi
echo "fuzz: $count targets, no failures"
