#!/bin/bash
# Runs clang-tidy over all sources, or over the given files: .ci/tidy.sh proxy/diff/*.cc
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset tidy >/dev/null
# clang-tidy needs only the generated headers.
ninja -C build/tidy -t targets all | sed -n 's/^\(.*\.pb\.h\): .*/\1/p' |
  xargs ninja -C build/tidy >/dev/null

files=("$@")
((${#files[@]})) || mapfile -t files < <(find nft proxy api tests -name '*.cc' | sort)
echo "clang-tidy: ${#files[@]} files"
if ! printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 -p build/tidy --quiet 2> >(grep -v 'warnings* generated' >&2)
then
  echo "clang-tidy: see the findings above" >&2
  exit 1
fi
echo "clang-tidy: no findings"
