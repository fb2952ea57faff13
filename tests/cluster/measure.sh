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
# Every endpoint address is local. Packets to Services leave through a device that drops them.
in_network_of outside sh -ec 'ip route add local 10.128.0.0/9 dev lo
  ip link add nowhere type veth peer name sink
  ip link set nowhere up; ip link set sink up
  ip address add 192.0.2.1/32 dev nowhere; ip neighbour add 192.0.2.2 lladdr 02:00:00:00:00:01 dev nowhere
  ip route add 10.96.0.0/16 via 192.0.2.2 dev nowhere onlink
  echo 1 >/proc/sys/net/ipv4/tcp_tw_reuse; echo 1024 65535 >/proc/sys/net/ipv4/ip_local_port_range'
mkdir -p "$work/measured"
in_network_of outside /usr/bin/python3 -B "$cluster_dir/measure.py" --kubeconfig "$state/admin.conf" \
  --kubernetes "$(realpath "$KUBERNETES")" --programs "$programs" --logs "$work/measured" "$@" |
  tee "$work/measured.json"
