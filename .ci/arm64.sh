#!/bin/bash
# Cross-compiles the programs for arm64 into build/arm64/bin/ and runs the unit tests under qemu. The tests
# in network namespaces cannot run, because qemu does not emulate netlink for nf_tables.
set -euo pipefail
cd "$(dirname "$0")/.."

root=build/arm64-root

# Headers and libraries of the groups `build` and `test`. The generators of protobuf and gRPC are files that
# the CMake configuration of gRPC expects.
packages() {
  .ci/deps.sh --print build test | grep -E '^lib|-dev$|^protobuf-compiler'
  printf '%s\n' libc6-dev libstdc++-12-dev  # Of the package g++, which is not installed there.
}

make_root() {
  local list
  list=$(packages | sort | paste -sd,)
  if [[ -f $root/packages && $(<"$root/packages") == "$list" ]]; then return; fi
  rm -rf "$root"
  # The packages are only unpacked, so no program of the other architecture runs.
  mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$list" \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr bookworm "$root"
  # Absolute links would lead out of the root.
  find "$root/usr/lib" -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do
    ln --symbolic --force --relative --no-dereference "$root$target" "$link"
  done
  echo "$list" >"$root/packages"
}

make_root
cmake --preset arm64
cmake --build --preset arm64
file build/arm64/bin/svcmapd
ctest --preset arm64
