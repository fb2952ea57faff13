#!/bin/bash
# Runs svcmap and kube-proxy with API servers of several Kubernetes versions (docs/compatibility.md), and
# compares the endpoints that connections to Services reach with the expected endpoints. Each argument is
# a directory with the programs kube-apiserver, kube-controller-manager, kube-proxy and kubectl of a version.
# Writes build/cluster/versions.tsv: version of the API server, flags, proxy, check, result.
#
#   versions.sh DIRECTORY...
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
(($#)) || fail "name the directories of the Kubernetes versions"
programs=$(realpath "${PROGRAMS:-$top/build/release/bin}")
mkdir -p "$work/versions"
: >"$work/versions.tsv"
trap '"$cluster_dir/cluster.sh" down >/dev/null' EXIT

# check DIRECTORY FLAGS FEATURE-GATES: checks one API server.
check() {
  export KUBERNETES=$1 EXTRA_APISERVER_FLAGS="$2${3:+ --feature-gates=$3}"
  export CONTROLLERS=serviceaccount-controller,endpointslice-controller
  NODES=0 PROXY=none FAMILY=ipv4 "$cluster_dir/cluster.sh" up
  family=ipv4
  local_endpoints
  in_network_of outside /usr/bin/python3 -B "$cluster_dir/versions.py" --kubeconfig "$state/admin.conf" \
    --kubernetes "$KUBERNETES" --programs "$programs" --logs "$work/versions" --feature-gates "$3" \
    >>"$work/versions.tsv"
  "$cluster_dir/cluster.sh" down
}

for directory in "$@"; do
  directory=$(realpath "$directory")
  check "$directory" "" ""
  # The versions in which ServiceCIDRs exist only in v1beta1, and only if an administrator enables them.
  case $("$directory/kube-apiserver" --version) in
    "Kubernetes v1.31."* | "Kubernetes v1.32."*)
      check "$directory" --runtime-config=networking.k8s.io/v1beta1=true MultiCIDRServiceAllocator=true ;;
  esac
done
column -t -s $'\t' "$work/versions.tsv"
! grep -q $'\tfailed' "$work/versions.tsv"
