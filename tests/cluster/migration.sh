#!/bin/bash
# Replaces kube-proxy with svcmap, replaces all endpoints, and replaces svcmap with kube-proxy, while clients
# in a pod, on a node and outside the cluster open connections. Writes build/cluster/migration.tsv: network
# plugin, step, failed new connections, ended existing connections, seconds.
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=traffic.sh
source "$cluster_dir/traffic.sh"
# shellcheck source=proxies.sh
source "$cluster_dir/proxies.sh"
trap '[[ $? == 0 ]] || echo "migration: failed, see $work/migration.log" >&2
  ((${#traffic[@]} == 0)) || kill "${traffic[@]}"' EXIT

# step NAME COMMAND...: counts the connections that fail while the command runs.
step() {
  local failed ended_before started=$SECONDS
  failed=$(failures) ended_before=$(ended)
  "${@:2}" >>"$work/migration.log" 2>&1
  for _ in {1..10}; do finish_requests; done
  printf '%s\t%s\t%s\t%s\t%s\n' "$(basename "${cni:-bridge}")" "$1" $(($(failures) - failed)) \
    $(($(ended) - ended_before)) $((SECONDS - started)) | tee -a "$work/migration.tsv"
}
replace_endpoints() {
  kubectl rollout restart deployment/web
  kubectl rollout status deployment/web --timeout=180s
  until_true 60 "deleted pods have ended" web_has_six_pods
}
web_has_six_pods() { (($(kubectl get pods -l app=web -o name | wc -l) == 6)); }

use_clean_kube_proxy >/dev/null
deploy_web
start_traffic
step "kube-proxy to svcmap" use_svcmap
step "rolling update of the endpoints" replace_endpoints
for node in "${nodes[@]}"; do
  until_true 60 "connections from $node reach all endpoints" reach_endpoints "$node" 6
done
step "svcmap to kube-proxy" use_kube_proxy
stop_traffic
