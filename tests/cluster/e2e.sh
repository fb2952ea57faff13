#!/bin/bash
# Runs Kubernetes' end-to-end tests [sig-network] in the cluster: with kube-proxy, then with svcmap (the
# manifests `kubeadm-sysctls`, with kube-proxy's DaemonSet parked). Writes build/cluster/e2e-PROXY.json
# (Ginkgo's report), e2e-PROXY.tsv (one line for each spec) and e2e-PROXY.log, and compares the results.
# docs/e2e.md describes the selection.
#
#   e2e.sh [kube-proxy|svcmap]...   Default: kube-proxy svcmap. FOCUS and SKIP: regular expressions
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"

focus=${FOCUS:-'\[sig-network\]'}
skip=${SKIP:-'\[Slow\]|\[Disruptive\]|\[Flaky\]|DNS|NetworkPolicy|Netpol|SCTP|\[Feature:(Networking-|LoadBalancer)'}
[[ -x ${KUBERNETES-}/e2e.test && -x $KUBERNETES/ginkgo ]] || fail "KUBERNETES needs e2e.test and ginkgo (tests/cluster/README.md)"

use_kube_proxy() {
  kubectl -n kube-system delete daemonset svcmap --ignore-not-found --wait >/dev/null
  kubectl -n kube-system patch daemonset kube-proxy --type merge \
    -p '{"spec":{"template":{"spec":{"nodeSelector":{"svcmap.example/parked":null}}}}}' >/dev/null
  kubectl -n kube-system rollout status daemonset/kube-proxy --timeout=120s >/dev/null
}
use_svcmap() {
  kubectl apply -k "$top/deploy/kubernetes/kubeadm-sysctls" >/dev/null 2>&1
  kubectl -n kube-system patch daemonset kube-proxy --type merge \
    -p '{"spec":{"template":{"spec":{"nodeSelector":{"svcmap.example/parked":"true"}}}}}' >/dev/null
  kubectl -n kube-system rollout status daemonset/svcmap --timeout=120s >/dev/null
  local node pod
  for node in "${nodes[@]}"; do
    pod=$(kubectl -n kube-system get pods -l k8s-app=svcmap --field-selector "spec.nodeName=$node" -o name)
    kubectl -n kube-system exec "$pod" -c svcmapd -- svcmapctl wait
    # Without the rules of the other proxy, each result belongs to one proxy.
    in_network_of "$node" nft delete table ip kube-proxy 2>/dev/null || true
    in_network_of "$node" nft delete table ip6 kube-proxy 2>/dev/null || true
  done
}
use_clean_kube_proxy() {
  use_kube_proxy
  local node
  for node in "${nodes[@]}"; do
    in_network_of "$node" nft delete table ip svcmap 2>/dev/null || true
    in_network_of "$node" nft delete table ip6 svcmap 2>/dev/null || true
  done
}

# run PROXY: continues after failed specs.
run() {
  local started=$SECONDS
  echo "e2e: $1, $(kubectl version -o json | sed -n 's/.*"gitVersion": "\(.*\)".*/\1/p' | tail -n 1), family $family"
  in_network_of control env KUBECONFIG="$state/admin.conf" \
    "$KUBERNETES/ginkgo" --procs="${PROCS:-6}" --timeout=90m --focus="$focus" --skip="$skip" --no-color \
    --output-dir="$work" --json-report="e2e-$1.json" "$KUBERNETES/e2e.test" -- \
    --provider=skeleton --num-nodes=3 --kubeconfig="$state/admin.conf" --kubectl-path="$KUBERNETES/kubectl" \
    --report-complete-junit=false >"$work/e2e-$1.log" 2>&1 || true
  /usr/bin/python3 -B "$cluster_dir/e2e_results.py" "$work/e2e-$1.json" "$work/e2e-$1.tsv"
  echo "e2e: $1 took $((SECONDS - started)) s"
}

if (($# == 0)); then set -- kube-proxy svcmap; fi
for proxy in "$@"; do
  case $proxy in
    kube-proxy) use_clean_kube_proxy ;;
    svcmap) use_svcmap ;;
    *) fail "unknown proxy: $proxy" ;;
  esac
  run "$proxy"
done
if (($# == 2)); then
  echo "e2e: differences:"
  diff <(cut -f 1,2 "$work/e2e-$1.tsv") <(cut -f 1,2 "$work/e2e-$2.tsv") && echo "none"
fi
