#!/bin/bash
# Restarts parts of nodes, and creates many Services, while clients in a pod, on a node and outside the
# cluster open connections. Writes the number of failed connections with each proxy to
# build/cluster/nodes.tsv: proxy, step, failed new connections, failed new connections to addresses of the
# rebooted node, ended existing connections, seconds.
#
#   nodes.sh [kube-proxy|svcmap]...   Default: kube-proxy svcmap
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=traffic.sh
source "$cluster_dir/traffic.sh"
# shellcheck source=proxies.sh
source "$cluster_dir/proxies.sh"
trap '[[ $? == 0 ]] || echo "nodes: failed, see $work/nodes.log" >&2
  ((${#traffic[@]} == 0)) || kill "${traffic[@]}"' EXIT

results=$work/nodes.tsv
readonly rebooted=node3
to_rebooted_node() { cat "$traffic_dir"/*.failures | grep -cE " (tcp|udp):\[?($(node4 $rebooted)|$(node6 $rebooted))\]?:" || true; }

# step NAME COMMAND...: counts the connections that fail while the command runs.
step() {
  local failed to_node ended_before started=$SECONDS
  failed=$(failures) to_node=$(to_rebooted_node) ended_before=$(ended)
  "${@:2}" >>"$work/nodes.log" 2>&1
  finish_requests
  to_node=$(($(to_rebooted_node) - to_node))
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$proxy" "$1" $(($(failures) - failed - to_node)) $to_node \
    $(($(ended) - ended_before)) $((SECONDS - started)) | tee -a "$results"
}

# restart NODE PROCESS: ends a process of the node. node.sh starts it again.
restart() {
  local before
  before=$(on "$1" pgrep -x "$2")
  on "$1" sh -c "kill -TERM $before"
  until_true 60 "$2 has restarted on $1" has_restarted "$1" "$2" "$before"
  until_true 60 "containerd works on $1" on "$1" ctr --namespace k8s.io tasks list
}
has_restarted() {
  local now
  now=$(on "$1" pgrep -x "$2") && [[ $now != "$3" ]]
}
restart_on_all_nodes() {
  local node
  for node in "${nodes[@]}"; do restart "$node" "$1"; done
  all_ready
}
all_ready() {
  local node
  kubectl wait --for=condition=Ready --timeout=120s nodes --all
  kubectl -n kube-system rollout status "daemonset/$proxy" --timeout=120s
  kubectl rollout status deployment/web --timeout=120s
  until_true 60 "deleted pods have ended" web_has_six_pods
  for node in "${nodes[@]}"; do
    until_true 60 "connections from $node reach all endpoints" reach_endpoints "$node" 6
  done
}
web_has_six_pods() { (($(kubectl get pods -l app=web -o name | wc -l) == 6)); }

drain() {
  kubectl drain node2 --ignore-daemonsets --delete-emptydir-data --force --timeout=120s
  until_true 60 "four pods are left" four_pods_run
  kubectl uncordon node2
  all_ready
}
four_pods_run() { (($(kubectl get pods -l app=web --field-selector status.phase=Running -o name | wc -l) == 4)); }

reboot() {
  "$cluster_dir/cluster.sh" reboot $rebooted
  until_true 120 "$rebooted has restarted" pods_restarted
  all_ready
}
pods_restarted() {
  ! kubectl -n kube-system get pods -l "k8s-app=$proxy" --field-selector spec.nodeName=$rebooted \
    -o 'jsonpath={.items[*].status.containerStatuses[*].restartCount}' | grep -qw "$restarts_before"
}

many_services() {
  local number
  for number in {1..500}; do
    printf -- '---\napiVersion: v1\nkind: Service\nmetadata: {name: many-%s, labels: {app: many}}\n' "$number"
    printf 'spec: {selector: {app: churn}, ports: [{port: 80, targetPort: 8080}]}\n'
  done >"$work/many-services.yaml"
  sed -e 's/: web/: churn/' -e 's/app: web/app: churn/' "$cluster_dir/web.yaml" | sed '/^---/,$d' | kubectl apply -f -
  kubectl rollout status deployment/churn --timeout=120s
  kubectl apply -f "$work/many-services.yaml" &
  local creation=$!
  kubectl rollout restart deployment/churn deployment/web
  wait $creation
  kubectl rollout status deployment/churn --timeout=180s
  all_ready
  until_true 120 "the last Service works on node1" service_works many-500
  kubectl delete -f "$work/many-services.yaml"
  kubectl delete deployment churn
  all_ready
}
service_works() {
  in_network_of node1 curl -sf -m 2 -o /dev/null "http://$(bracket "$(kubectl get service "$1" -o 'jsonpath={.spec.clusterIP}')")/hostname"
}
bracket() { if [[ $1 == *:* ]]; then echo "[$1]"; else echo "$1"; fi; }

# Connections to a crashed node leave entries of connection tracking. A new connection with the same ports
# would use the endpoint of the entry.
no_unanswered_connections() {
  local node
  for node in "${nodes[@]}"; do
    ! in_network_of "$node" grep -q SYN_SENT /proc/net/nf_conntrack || return 1
  done
}

if (($# == 0)); then set -- kube-proxy svcmap; fi
rm -f "$results" "$work/nodes.log"
for proxy in "$@"; do
  use "$proxy"
  deploy_web
  # External IPs do not depend on the rebooted node.
  ! has4 || in_network_of control ip route replace "$external4" via "$(node4 node2)"
  ! has6 || in_network_of control ip route replace "$external6" via "$(node6 node2)"
  until_true 150 "entries of unanswered connections expire" no_unanswered_connections
  start_traffic
  step "kubelet restart on all nodes" restart_on_all_nodes kubelet
  step "containerd restart on all nodes" restart_on_all_nodes containerd
  step "drain and uncordon of node2" drain
  step "500 Services while pods churn" many_services
  restarts_before=$(kubectl -n kube-system get pods -l "k8s-app=$proxy" --field-selector spec.nodeName=$rebooted \
    -o 'jsonpath={.items[0].status.containerStatuses[0].restartCount}')
  step "crash and restart of $rebooted" reboot
  stop_traffic >"$work/nodes-traffic"
  echo "$proxy: $(tail -n 1 "$work/nodes-traffic")"
done
