#!/bin/bash
# Runs Kubernetes' end-to-end tests [sig-network] in the cluster: with kube-proxy, then with svcmap (the
# manifests `kubeadm-sysctls`, with kube-proxy's DaemonSet parked). Writes build/cluster/e2e-PROXY.json
# (Ginkgo's report), e2e-PROXY.tsv (one line for each spec) and e2e-PROXY.log, and compares the results.
# docs/e2e.md describes the selection.
#
#   e2e.sh [kube-proxy|svcmap]...   Default: kube-proxy svcmap. FOCUS and SKIP: regular expressions.
#                                   SET=loadbalancer: the slow specs and the load balancer's, whose
#                                   results are in e2e-loadbalancer-PROXY.*
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=proxies.sh
source "$cluster_dir/proxies.sh"

set=${SET:-main}
never='\[Disruptive\]|\[Flaky\]|DNS|NetworkPolicy|Netpol|SCTP|\[Feature:Networking-'
case $set in
  main)
    focus=${FOCUS:-'\[sig-network\]'}
    skip=${SKIP:-"$never|\[Slow\]|\[Feature:LoadBalancer\]"}
    client=control
    prefix=$work/e2e
    ;;
  loadbalancer)
    focus=${FOCUS:-'\[sig-network\].*(\[Slow\]|\[Feature:LoadBalancer\])'}
    skip=${SKIP:-$never}
    client=outside  # The specs compare the address of the client with the subnet of the nodes.
    prefix=$work/e2e-loadbalancer
    ;;
  *) echo "e2e: unknown SET: $set" >&2; exit 2 ;;
esac
[[ -x ${KUBERNETES-}/e2e.test && -x $KUBERNETES/ginkgo ]] || fail "KUBERNETES needs e2e.test and ginkgo (tests/cluster/README.md)"

# run PROXY: continues after failed specs.
run() {
  local started=$SECONDS
  echo "e2e: $1, $(kubectl version -o json | sed -n 's/.*"gitVersion": "\(.*\)".*/\1/p' | tail -n 1), family $family"
  in_network_of $client env KUBECONFIG="$state/admin.conf" \
    "$KUBERNETES/ginkgo" --procs="${PROCS:-6}" --timeout=90m --focus="$focus" --skip="$skip" --no-color \
    --output-dir="$work" --json-report="$(basename "$prefix")-$1.json" "$KUBERNETES/e2e.test" -- \
    --provider=skeleton --num-nodes=3 --kubeconfig="$state/admin.conf" --kubectl-path="$KUBERNETES/kubectl" \
    --report-complete-junit=false >"$prefix-$1.log" 2>&1 || true
  /usr/bin/python3 -B "$cluster_dir/e2e_results.py" "$prefix-$1.json" "$prefix-$1.tsv"
  echo "e2e: $1 took $((SECONDS - started)) s"
}

start_load_balancer() {
  local addresses=() node
  for node in "${nodes[@]}"; do addresses+=("$(both "$(node4 "$node")" "$(node6 "$node")")"); done
  mkdir -p "$state/traffic"
  nsenter --target "$(pid_of control)" --net /usr/bin/python3 -B "$cluster_dir/loadbalancer.py" "$(server)" "$state/pki" \
    "$(both $balancers4 $balancers6)" "${addresses[@]}" >"$prefix-routes.log" 2>&1 &
  load_balancer=$!
  # For `cluster.sh down`.
  echo "$load_balancer $(start_time $load_balancer)" >"$state/traffic/loadbalancer.pid"
  trap 'kill "$load_balancer"' EXIT
}

if (($# == 0)); then set -- kube-proxy svcmap; fi
[[ $set != loadbalancer ]] || start_load_balancer
for proxy in "$@"; do
  use "$proxy"
  run "$proxy"
done
if (($# == 2)); then
  echo "e2e: differences:"
  diff <(cut -f 1,2 "$prefix-$1.tsv") <(cut -f 1,2 "$prefix-$2.tsv") && echo "none"
fi
