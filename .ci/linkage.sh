#!/bin/bash
# Checks that the licences of linked libraries are compatible (third_party/README.md): no release binary
# may link libnftables (GPL-2.0-only), and some binaries may not link libnftnl or libmnl.
set -uo pipefail
cd "$(dirname "$0")/../build/release/bin"

status=0
must_not_need() {
  local program=$1 library
  shift
  if [[ ! -x $program ]]; then
    echo "build/release/bin/$program is missing" >&2
    status=1
    return
  fi
  for library in "$@"; do
    if readelf -d "$program" | grep -q "(NEEDED).*\[$library\.so"; then
      echo "$program links $library, see third_party/README.md" >&2
      status=1
    fi
  done
}
must_not_need svcmapd libnftables
must_not_need svcmap-bench libnftables
must_not_need svcmap-protocol-check libnftables libnftnl libmnl
must_not_need svcmap-demo libnftables
must_not_need svcmapctl libnftables libnftnl libmnl
must_not_need svcmap-kube libnftables libnftnl libmnl
exit "$status"
