#!/bin/bash
# Runs the commands of docs/migration.md, docs/install.md and docs/operations.md in the cluster, while
# clients in a pod, on a node and outside the cluster open connections. Fails if a command is not in the
# document, if a command fails, or if a connection fails that does not fail with kube-proxy.
#
#   documents.sh [push]   push: only the steps of push/steps.sh. KUBERNETES_SOURCES: a source tree of
#                         Kubernetes, with which the controller with the Go client is built
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=traffic.sh
source "$cluster_dir/traffic.sh"
# shellcheck source=push/steps.sh
source "$cluster_dir/push/steps.sh"

folder=$work/documents
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
export PATH=$state/bin:$PATH

trap '((${#traffic[@]} == 0)) || kill "${traffic[@]}"; [[ -z $controller ]] || kill "$controller"' EXIT

# documented DOCUMENT COMMAND [WORD=VALUE...]: runs a command of a document, with words in capitals replaced.
documented() {
  local document=$1 command=$2 value
  collapsed() { tr -s '[:space:]' ' '; }
  collapsed <"$top/docs/$document" | grep -qF -- "$(collapsed <<<"$command" | sed 's/ $//')" ||
    fail "docs/$document does not contain: $command"
  for value in "${@:3}"; do command=${command//"${value%%=*}"/"${value#*=}"}; done
  echo "  \$ ${command//$'\n'/$'\n'    }"
  bash -euo pipefail -c "$command" >"$folder/output" 2>&1 || { cat "$folder/output"; fail "the command failed"; }
}

# kustomization DIRECTORY FOLDER [TAG]: writes the kustomization that install.md describes.
kustomization() {
  mkdir -p "$1"
  cat >"$1/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - $(realpath --relative-to="$folder/$1" "$top/deploy/kubernetes/$2")
images:
  - name: localhost/svcmap
    newName: localhost/svcmap${3:+
    newTag: $3}
END
}

step() { echo "== $*"; }
failed_before=0 ended_before=0
# counted NAME: stores the counts of a step, including requests that have started before its end.
counted() {
  finish_requests
  local failed ended
  failed=$(failures) ended=$(ended)
  new_failures=$((failed - failed_before)) new_ends=$((ended - ended_before))
  failed_before=$failed ended_before=$ended
  echo "  failed: $new_failures new connections, $new_ends existing connections; $SECONDS s"
  printf '%s\t%s\t%s\t%s\n' "$1" "$new_failures" "$new_ends" "$SECONDS" >>"$folder/steps"
  SECONDS=0
}
# none_failed NAME: like counted, for steps in which no connection may fail.
none_failed() {
  counted "$1"
  ((new_failures + new_ends == 0)) || problems+=("$1")
}
# none_new_failed NAME: like counted, for steps in which only connections to deleted pods may end.
none_new_failed() {
  counted "$1"
  ((new_failures == 0)) || problems+=("$1")
}
problems=()

pod_on() { kubectl -n kube-system get pods -l "k8s-app=$2" --field-selector "spec.nodeName=$1,status.phase=Running" -o 'jsonpath={.items[0].metadata.name}'; }
log_contains() { kubectl -n kube-system logs "$(pod_on "$1" svcmap)" -c svcmapd | grep -qF "$2"; }
no_pod_on() { [[ -z $(kubectl -n kube-system get pods -l "k8s-app=$2" --field-selector "spec.nodeName=$1" -o name) ]]; }
pod_runs_on() { [[ -n $(pod_on "$1" "$2") ]]; }
svcmap_serves_on() { kubectl -n kube-system exec "$(pod_on "$1" svcmap)" -c svcmapd -- svcmapctl wait --timeout 5s; }
# In nftables mode, kube-proxy's table of each IP family has a chain for the Service, with six endpoints.
kube_proxy_programmed() {
  local table
  for table in $(! has4 || echo ip) $(! has6 || echo ip6); do
    in_network_of "$1" nft list table "$table" kube-proxy | grep -A1 'chain service-.*/web/tcp/http' |
      grep -q 'random mod 6' || return 1
  done
}
tables_left() { in_network_of "$1" nft list tables | grep -c "$2" || true; }

migrate_node() {
  local node=$1
  documented migration.md 'kubectl label node NODE svcmap=beside' "NODE=$node"
  until_true 60 "svcmap runs on $node" pod_runs_on "$node" svcmap
  documented migration.md 'kubectl -n kube-system exec POD -c svcmapd -- svcmapctl wait' "POD=$(pod_on "$node" svcmap)"
  documented migration.md 'kubectl label --overwrite node NODE svcmap=alone' "NODE=$node"
  until_true 60 "kube-proxy has left $node" no_pod_on "$node" kube-proxy
  until_true 60 "svcmapd removes kube-proxy's rules" log_contains "$node" 'all kube-proxy rules removed'
  [[ $(tables_left "$node" kube-proxy) == 0 ]] || fail "tables of kube-proxy are left on $node"
}

# configuration DIRECTORY FOLDER: the configuration files that the user of `base`, `side-by-side` and `push` edits.
configuration() {
  sed "s|^clusterCIDR: .*|clusterCIDR: $(both $pods4 $pods6)|; s|0\.0\.0\.0:|$(bracketed 0.0.0.0 ::):|" \
    "$top/deploy/kubernetes/$2/config.conf" >"$1/config.conf"
  sed "s|server: .*|server: $(server)|" "$top/deploy/kubernetes/base/kubeconfig.conf" >"$1/kubeconfig.conf"
  cat >>"$1/kustomization.yaml" <<END
configMapGenerator:
  - name: svcmap
    namespace: kube-system
    behavior: merge
    files:
      - config.conf
$([[ $2 == push ]] || echo '      - kubeconfig.conf')
generatorOptions:
  disableNameSuffixHash: true
END
}

# render_chart VALUES: prints the objects of the chart.
render_chart() {
  GO111MODULE=off GOFLAGS='' GOPATH=/usr/share/gocode go build -o "$folder/render" "$top/tests/deploy/helm/render.go"
  "$folder/render" "$top/deploy/helm/svcmap" kube-system "$1" | /usr/bin/python3 -c '
import json, sys
for name, text in json.load(sys.stdin)["rendered"].items():
    if name != "NOTES.txt":
        print("---\n" + text)'
}

# containers_run: whether a pod runs on each node, with all its containers.
containers_run() {
  kubectl -n kube-system get pods -l k8s-app=svcmap -o json | /usr/bin/python3 -c '
import json, sys
pods = json.load(sys.stdin)["items"]
running = [len(pod["spec"]["containers"]) == sum("running" in container["state"]
           for container in pod["status"].get("containerStatuses", [])) for pod in pods]
sys.exit(not (all(running) and len(running) == int(sys.argv[1])))' ${#nodes[@]}
}
# restarts: prints the number of restarts of each container.
restarts() {
  kubectl -n kube-system get pods -l k8s-app=svcmap \
    -o 'jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].restartCount}{"\n"}{end}' | sort
}

# Steps 2 and 3 of install.md, kubeadm, when svcmap's pods run beside kube-proxy.
replace_kube_proxy() {
  until_true 60 "svcmap's containers run" containers_run
  documented install.md 'for pod in $(kubectl -n kube-system get pods -l k8s-app=svcmap -o name); do
  kubectl -n kube-system exec "$pod" -c svcmapd -- svcmapctl wait
done'
  documented install.md "kubectl -n kube-system patch daemonset kube-proxy --type merge \\
  -p '{\"spec\":{\"template\":{\"spec\":{\"nodeSelector\":{\"svcmap.example/parked\":\"true\"}}}}}'"
  documented install.md 'kubectl -n kube-system rollout status daemonset/svcmap'
  local node
  for node in "${nodes[@]}"; do
    until_true 60 "kube-proxy has left $node" no_pod_on "$node" kube-proxy
    # From here on, only svcmap's rules can translate connections.
    in_network_of "$node" nft list tables | awk '$3 == "kube-proxy" { print "delete", $0 }' | in_network_of "$node" nft -f -
  done
}

clean_up() {
  kustomization my-cleanup cleanup
  documented install.md 'kubectl apply -k my-cleanup'
  documented install.md 'kubectl -n kube-system rollout status daemonset/svcmap-cleanup'
  documented install.md 'kubectl delete -k my-cleanup'
  documented install.md 'kubectl delete --ignore-not-found -k my-cluster'
  local node
  for node in "${nodes[@]}"; do
    [[ $(tables_left "$node" svcmap) == 0 ]] || fail "tables of svcmap are left on $node"
  done
}

back_to_kube_proxy() {
  step "install.md: roll back to kube-proxy, and remove svcmap"
  documented install.md "kubectl -n kube-system patch daemonset kube-proxy --type json \\
  -p '[{\"op\": \"remove\", \"path\": \"/spec/template/spec/nodeSelector/svcmap.example~1parked\"}]'"
  documented install.md 'kubectl -n kube-system rollout status daemonset/kube-proxy'
  local node
  for node in "${nodes[@]}"; do
    until_true 60 "kube-proxy has programmed its rules on $node" kube_proxy_programmed "$node"
  done
  documented install.md 'kubectl -n kube-system delete daemonset svcmap'
  clean_up
}

update_endpoints() {
  kubectl rollout restart deployment/web >/dev/null
  kubectl rollout status deployment/web --timeout=180s >/dev/null
  until_true 60 "the old pods have ended" pods_exist 6  # 15 s after their SIGTERM.
}
pods_exist() { (($(kubectl get pods -l app=web -o name | wc -l) == $1)); }

finish() {
  stop_traffic
  ((${#problems[@]} == 0)) || fail "connections failed in: ${problems[*]}; see $folder/steps and $traffic_dir"
}

deploy_web
start_traffic
SECONDS=0

step "rolling update of the endpoints, with kube-proxy"
update_endpoints
counted endpoints-update-kube-proxy
kube_proxy_failures=$new_failures

if [[ ${1-} == push ]]; then
  push_steps
  finish
  exit
fi

step "migration.md, step 1: exclude migrated nodes from kube-proxy's DaemonSet"
documented migration.md "kubectl -n kube-system patch daemonset kube-proxy --type=merge -p '{\"spec\": {\"template\": {\"spec\": {\"affinity\":
  {\"nodeAffinity\": {\"requiredDuringSchedulingIgnoredDuringExecution\": {\"nodeSelectorTerms\": [{\"matchExpressions\":
  [{\"key\": \"svcmap\", \"operator\": \"NotIn\", \"values\": [\"alone\"]}]}]}}}}}}}'"
kubectl -n kube-system rollout status daemonset/kube-proxy --timeout=120s >/dev/null
none_failed exclude-nodes

step "migration.md, steps 2 to 5: migrate each node"
kustomization my-cluster take-over
documented install.md 'kubectl apply -k my-cluster'
for node in "${nodes[@]}"; do migrate_node "$node"; done
none_failed migrate

step "migration.md, roll back: return to kube-proxy"
documented migration.md "kubectl -n kube-system patch daemonset svcmap --type json -p '[
  {\"op\": \"test\", \"path\": \"/spec/template/spec/containers/0/args/3\", \"value\": \"--remove-kube-proxy\"},
  {\"op\": \"remove\", \"path\": \"/spec/template/spec/containers/0/args/3\"}]'"
documented migration.md 'kubectl -n kube-system rollout status daemonset/svcmap'
for node in "${nodes[@]}"; do
  documented migration.md 'kubectl label --overwrite node NODE svcmap=beside' "NODE=$node"
  until_true 60 "kube-proxy runs on $node" pod_runs_on "$node" kube-proxy
  until_true 60 "kube-proxy has programmed its rules on $node" kube_proxy_programmed "$node"
  documented migration.md 'kubectl label node NODE svcmap-' "NODE=$node"
  until_true 60 "svcmap has left $node" no_pod_on "$node" svcmap
done
none_failed roll-back

step "install.md, Remove"
documented install.md 'kubectl -n kube-system delete daemonset svcmap'
clean_up
none_failed remove

step "install.md, kubeadm: replace kube-proxy on all nodes at the same time"
kustomization my-cluster kubeadm
documented install.md 'kubectl apply -k my-cluster'
kubectl -n kube-system wait --for=jsonpath='{.status.phase}'=Running pods -l k8s-app=svcmap --timeout=60s >/dev/null
replace_kube_proxy
none_failed kubeadm

step "migration.md, step 6: kubeadm-sysctls"
kustomization my-cluster kubeadm-sysctls
documented install.md 'kubectl apply -k my-cluster'
documented install.md 'kubectl -n kube-system rollout status daemonset/svcmap'
for node in "${nodes[@]}"; do
  [[ $(in_network_of "$node" cat /proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait) == 3600 ]] ||
    fail "the sysctls are not set on $node"
done
none_failed kubeadm-sysctls

step "install.md, Upgrade: a new tag, and rollout undo"
kustomization my-cluster kubeadm-sysctls next
documented install.md 'kubectl apply -k my-cluster'
documented install.md 'kubectl -n kube-system rollout status daemonset/svcmap'
documented install.md 'kubectl -n kube-system rollout undo daemonset/svcmap'
documented install.md 'kubectl -n kube-system rollout status daemonset/svcmap'
none_failed upgrade

step "operations.md: the commands, and a change to the ConfigMap"
node1_pod=$(pod_on node1 svcmap)
for command in 'svcmapctl status' 'svcmapctl check' 'svcmapctl dump applied'; do
  grep -qF "    $command" "$top/docs/operations.md" || fail "operations.md does not contain: $command"
  # shellcheck disable=SC2086
  kubectl -n kube-system exec "$node1_pod" -c svcmapd -- $command >"$folder/output" ||
    { cat "$folder/output"; fail "$command failed"; }
done
kubectl -n kube-system get configmap kube-proxy -o yaml | sed "s/configSyncPeriod: .*/configSyncPeriod: $((60 + RANDOM % 600))s/" |
  kubectl replace -f - >/dev/null
restarted() { kubectl -n kube-system get pod "$node1_pod" -o 'jsonpath={.status.containerStatuses[*].restartCount}' | grep -qx '[1-9] [1-9]'; }
until_true 180 "svcmapd and svcmap-kube restart" restarted
until_true 60 "svcmapd handles traffic again" svcmap_serves_on node1
none_failed config-map

step "kill -9 of svcmapd and svcmap-kube on each node"
before=$(restarts)
for node in "${nodes[@]}"; do
  for name in svcmapd svcmap-kube; do
    on "$node" sh -c 'for p in /proc/[0-9]*; do [ "$(cat $p/comm)" != "$0" ] || kill -KILL "${p#/proc/}"; done' "$name" 2>/dev/null || true
  done
done
# Each container has one restart more than before.
all_restarted() {
  paste -d ' ' <(echo "$before") <(restarts) | awk '$1 != $4 || $5 <= $2 || $6 <= $3 { exit 1 }' && containers_run
}
until_true 60 "svcmapd and svcmap-kube restart" all_restarted
for node in "${nodes[@]}"; do until_true 60 "svcmapd handles traffic on $node" svcmap_serves_on "$node"; done
none_failed kill

step "all pods of svcmap are deleted"
kubectl -n kube-system delete pods -l k8s-app=svcmap >/dev/null
until_true 60 "svcmap's containers run" containers_run
for node in "${nodes[@]}"; do until_true 60 "svcmapd handles traffic on $node" svcmap_serves_on "$node"; done
kubectl -n kube-system rollout status daemonset/svcmap --timeout=120s >/dev/null
none_failed deleted-pods

step "rolling update of the endpoints, with svcmap"
update_endpoints
counted endpoints-update-svcmap
# Connections end with the process at their other end. Each kept connection may end once in an update.
((new_failures <= kube_proxy_failures)) || problems+=("endpoints-update-svcmap")

back_to_kube_proxy
none_failed back-to-kube-proxy

step "the Helm chart with values/kubeadm-sysctls.yaml, rendered by tests/deploy/helm"
render_chart "$top/deploy/helm/values/kubeadm-sysctls.yaml" >chart.yaml
kubectl apply -f chart.yaml >/dev/null
kubectl -n kube-system wait --for=jsonpath='{.status.phase}'=Running pods -l k8s-app=svcmap --timeout=60s >/dev/null
replace_kube_proxy
none_failed chart
back_to_kube_proxy
kubectl delete --ignore-not-found -f chart.yaml >/dev/null
none_failed chart-back

step "install.md, side by side"
kustomization my-cluster side-by-side
configuration my-cluster side-by-side
documented install.md 'kubectl apply -k my-cluster'
kubectl -n kube-system rollout status daemonset/svcmap --timeout=60s >/dev/null
kubectl create service clusterip other --tcp=80:8080 --dry-run=client -o yaml |
  sed 's/app: other$/app: web/' | kubectl apply -f - >/dev/null
other=$(kubectl get service other -o 'jsonpath={.spec.clusterIP}')
[[ $other != *:* ]] || other="[$other]"
reachable() { in_network_of node2 curl -s -m 2 "http://$other/hostname"; }
rows_of() { in_network_of node2 nft list table "$(first ip ip6)" "$1" | grep -c "${other//[][]/}"; }
until_true 20 "kube-proxy handles the Service other" reachable
[[ $(rows_of svcmap) == 0 ]] || fail "svcmap handles a Service without the label"
documented install.md 'kubectl label service web service.kubernetes.io/service-proxy-name=svcmap' ' web '=' other '
moved() { reachable && [[ $(rows_of svcmap) != 0 && $(rows_of kube-proxy) == 0 ]]; }
until_true 20 "svcmap handles the Service other" moved
documented install.md 'kubectl -n kube-system delete daemonset svcmap'
clean_up
none_failed side-by-side

step "install.md, base: without kube-proxy's ConfigMap"
kustomization my-cluster base
configuration my-cluster base
documented install.md 'kubectl apply -k my-cluster'
kubectl -n kube-system wait --for=jsonpath='{.status.phase}'=Running pods -l k8s-app=svcmap --timeout=60s >/dev/null
replace_kube_proxy
none_failed base
back_to_kube_proxy
none_failed base-back

push_steps
finish
