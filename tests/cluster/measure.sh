#!/bin/bash
# Measures kube-proxy and svcmap on one API server, in one run (docs/benchmarks.md): starts a control plane
# without nodes, and runs measure.py in the machine `outside`. Writes one line of JSON for each proxy and
# round to build/cluster/measured.json. No other proxy may run on this machine: a listener of nf_tables
# notifications in any network namespace slows down all transactions.
#
#   measure.sh [--services=10000] [--rounds=3] [--proxies=svcmap,kube-proxy-nftables,kube-proxy-iptables]
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
programs=$(realpath "${PROGRAMS:-$top/build/release/bin}")

NODES=0 PROXY=none FAMILY=ipv4 "$cluster_dir/cluster.sh" up
trap '"$cluster_dir/cluster.sh" down' EXIT
family=ipv4
[[ -n ${KUBERNETES-} ]] || fail "KUBERNETES is not set"
local_endpoints
mkdir -p "$work/measured"
in_network_of outside /usr/bin/python3 -B "$cluster_dir/measure.py" --kubeconfig "$state/admin.conf" \
  --kubernetes "$(realpath "$KUBERNETES")" --programs "$programs" --logs "$work/measured" "$@" |
  tee "$work/measured.json"
