# Functions that replace kube-proxy by svcmap (the manifests `kubeadm-sysctls`) and back. Sourced by the tests.
# shellcheck shell=bash disable=SC2154

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

# use PROXY: kube-proxy or svcmap. Afterwards, no rules of the other proxy exist.
use() {
  case $1 in
    kube-proxy) use_clean_kube_proxy ;;
    svcmap) use_svcmap ;;
    *) fail "unknown proxy: $1" ;;
  esac
}
