#!/bin/bash
# Runs svcmap and kube-proxy with API servers of several Kubernetes versions, 1.31 or later
# (docs/compatibility.md), and compares the endpoints that connections to Services reach with the expected
# endpoints. Each argument is a directory with the programs kube-apiserver, kube-controller-manager and
# kubectl of a version, and optionally kube-proxy. Writes build/cluster/versions.tsv: version, feature gates,
# proxy, check, result; and logs to build/cluster/versions.
#
#   versions.sh DIRECTORY...
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
(($#)) || fail "name the directories of the Kubernetes versions"
programs=$(realpath "${PROGRAMS:-$top/build/release/bin}")
mkdir -p "$work/versions"
: >"$work/versions.tsv"

# check DIRECTORY VERSION SERVICE-CIDRS FEATURE-GATES FLAG...: checks one API server, which must have ServiceCIDRs
# in the API version SERVICE-CIDRS ("none", "v1beta1" or "v1").
check() {
  export KUBERNETES=$1 EXTRA_APISERVER_FLAGS="${4:+--feature-gates=$4} ${*:5}"
  export CONTROLLERS=serviceaccount-controller,endpointslice-controller
  NODES=0 PROXY=none FAMILY=ipv4 "$cluster_dir/cluster.sh" up
  trap '"$cluster_dir/cluster.sh" down' EXIT
  local_endpoints
  in_network_of outside /usr/bin/python3 -B "$cluster_dir/versions.py" --kubeconfig "$state/admin.conf" \
    --kubernetes "$KUBERNETES" --programs "$programs" --logs "$work/versions" --version "$2" --service-cidrs "$3" \
    --feature-gates "$4" >>"$work/versions.tsv"
  trap - EXIT
  "$cluster_dir/cluster.sh" down
}

for directory in "$@"; do
  directory=$(realpath "$directory")
  version=$("$directory/kube-apiserver" --version)
  version=${version#Kubernetes }
  case $version in
    v1.31.* | v1.32.*)
      check "$directory" "$version" none ""
      check "$directory" "$version" v1beta1 MultiCIDRServiceAllocator=true \
        --runtime-config=networking.k8s.io/v1beta1=true ;;
    v1.[3-9][0-9].*) check "$directory" "$version" v1 "" ;;
    *) fail "$directory: version $version, must be v1.31.0 or later" ;;
  esac
done
column -t -s $'\t' "$work/versions.tsv"
! grep -q $'\tfailed' "$work/versions.tsv"
