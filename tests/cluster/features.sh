#!/bin/bash
# Checks the optional features of svcmap-kube against the API server, and each annotation from its
# manifest to packets: Events and the startup taint with and without their RBAC rules, and the finding and
# the Event of a wrong value of each annotation. Measures the failed first connections of the pods on new
# and on rebooted nodes, with and without the startup taint. Writes them to build/cluster/features.tsv:
# node, taint, pods, failed first connections.
#
#   features.sh [annotations|startup_taint]...   Default: both
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=traffic.sh
source "$cluster_dir/traffic.sh"
# shellcheck source=proxies.sh
source "$cluster_dir/proxies.sh"

trap '((${#traffic[@]} == 0)) || kill "${traffic[@]}"' EXIT
readonly folder=$work/features taint=svcmap/not-ready ranges4=172.29.0.20 ranges6=fd00:29::20 \
  site4=172.29.0.21 site6=fd00:29::21
mkdir -p "$folder" "$traffic_dir"
step() { echo "== $* ($SECONDS s)"; }

pod_on() { kubectl -n kube-system get pods -l k8s-app=svcmap --field-selector "spec.nodeName=$1,status.phase=Running" -o 'jsonpath={.items[0].metadata.name}'; }
kube_log() { kubectl -n kube-system logs "$(pod_on "$1")" -c svcmap-kube; }
svcmapctl_on() { kubectl -n kube-system exec "$(pod_on "$1")" -c svcmapd -- svcmapctl "${@:2}"; }
# Unlike grep -q, grep -c reads all input, so that the program before it is not killed by SIGPIPE.
kube_log_contains() { kube_log "$1" | grep -cF -- "$2"; }
has_finding() { svcmapctl_on "$1" status | grep -cF -- "$2"; }
has_no_finding() { svcmapctl_on "$1" status >"$folder/status" && ! grep -qF -- "$2" "$folder/status"; }
host() { if [[ $1 == *:* ]]; then echo "[$1]"; else echo "$1"; fi; }
ips_of() { kubectl get service "$1" -o 'jsonpath={.spec.clusterIPs[*]}'; }
external() { ! has4 || echo "$1"; ! has6 || echo "$2"; }

# ask MACHINE: sends the requests of standard input (requests.py). Fails if one has no answer.
ask() {
  in_network_of "$1" /usr/bin/python3 -B "$cluster_dir/requests.py" >"$folder/answers" || fail "requests.py failed on $1"
  ! grep -vE ' (web|site|other-site)[^ ]*$' "$folder/answers" || fail "requests from $1 have no answer"
}
# endpoints: prints the endpoints of the last requests.
endpoints() { awk '{ print $NF }' "$folder/answers" | sort -u; }
# same_for COLUMN: fails unless all requests with the same protocol and the same value in the column have the
# same endpoint, and other requests have other endpoints.
same_for() {
  ! awk -v column="$1" '{ client = $1 " " $column } client in seen && seen[client] != $NF { print } { seen[client] = $NF }' \
    "$folder/answers" | grep . || fail "several endpoints answer the same client"
  (($(endpoints | wc -l) > 1)) || fail "one endpoint answers all clients"
}

# svcmap_with FLAG...: replaces the flags of svcmap-kube that follow the flags of the manifest.
svcmap_with() {
  use_svcmap
  local flag patch='{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--port-ranges"}'
  for flag in "$@"; do patch+=", {\"op\": \"add\", \"path\": \"/spec/template/spec/containers/1/args/-\", \"value\": \"$flag\"}"; done
  kubectl -n kube-system patch daemonset svcmap --type json -p "[$patch]" >/dev/null
  restart_svcmap
}
restart_svcmap() {
  kubectl -n kube-system delete pods -l k8s-app=svcmap >/dev/null
  kubectl -n kube-system rollout status daemonset/svcmap --timeout=120s >/dev/null
  until_true 60 "a pod of svcmap runs on each node" svcmap_runs
}
svcmap_runs() {
  local node
  for node in "${nodes[@]}"; do svcmapctl_on "$node" wait --timeout 5s || return 1; done
}

deploy_features() {
  local pods
  mapfile -t pods < <(kubectl get pods -l app=web -o 'jsonpath={range .items[*]}{.status.podIP}{"\n"}{end}')
  weighted=("$(pod_name "${pods[0]}")" "$(pod_name "${pods[1]}")" "$(pod_name "${pods[2]}")")
  sed -e "s|@RANGES@|$(both "\"$ranges4\"" "\"$ranges6\"")|" -e "s|@SITE@|$(both "\"$site4\"" "\"$site6\"")|" \
    -e "s|@TYPE@|$(first IPv4 IPv6)|" -e "s|@POD1@|${pods[0]}|" -e "s|@POD2@|${pods[1]}|" -e "s|@POD3@|${pods[2]}|" \
    "$cluster_dir/features.yaml" >"$folder/features.yaml"
  kubectl delete -f "$folder/features.yaml" --ignore-not-found >/dev/null  # Objects of an earlier run have other annotations.
  kubectl apply -f "$folder/features.yaml" >/dev/null
  kubectl rollout status deployment/site --timeout=60s >/dev/null
  ! has4 || in_network_of control ip route replace $ranges4 via "$(node4 node2)"
  ! has6 || in_network_of control ip route replace $ranges6 via "$(node6 node2)"
}
pod_name() { kubectl get pods -l app=web --field-selector "status.podIP=$1" -o 'jsonpath={.items[0].metadata.name}'; }

check_ranges() {
  step "svcmap/end-ports: a range of UDP ports, and all TCP ports of an address"
  local ip
  # No route leads from the client outside the cluster to cluster IPs.
  for ip in $(ips_of ranges) $(external $ranges4 $ranges6); do
    printf '%s\n' "tcp $ip 80 - 0" "tcp $ip 8080 - 0" "udp $ip 8081 - 0"
  done | ask node1
  for ip in $(external $ranges4 $ranges6); do
    printf '%s\n' "tcp $ip 80 - 0" "tcp $ip 8080 - 0" "udp $ip 8081 - 0"
  done | ask outside
}

check_picks() {
  step "svcmap/endpoint-pick: a client reaches the same endpoint through all nodes and on both TCP ports"
  local source node port
  for source in {101..110}; do
    ! has4 || in_network_of outside ip address replace "172.31.0.$source/24" dev eth0
    ! has6 || in_network_of outside ip address replace "fd00:31::$source/64" dev eth0 nodad
    for node in "${nodes[@]}"; do
      for port in "tcp 30100" "tcp 30103" "udp 30101"; do
        ! has4 || echo "${port% *} $(node4 "$node") ${port#* } 172.31.0.$source 0"
        ! has6 || echo "${port% *} $(node6 "$node") ${port#* } fd00:31::$source 0"
      done
    done
  done | ask outside
  same_for 4
  svcmapctl_on node1 explain "$(bracketed "$(node4 node1)" "$(node6 node1)"):30100" \
    --from "$(first 172.31.0.101 fd00:31::101)" >"$folder/explained"
  grep -q 'from a table with 1021 slots' "$folder/explained" || fail "svcmap/pick-table-size: see $folder/explained"
  for source in {41001..41020}; do
    for node in "${nodes[@]}"; do echo "tcp $(first "$(node4 "$node")" "$(node6 "$node")") 30102 - $source"; done
  done | ask outside
  same_for 5
}

check_resets() {
  step "svcmap/reset-stale-tcp: connections to an endpoint that has left the Service"
  rm -f "$folder/held"
  nsenter --net="$(client_network)" /usr/bin/python3 -B "$cluster_dir/requests.py" held "$(ips_of resets)" "$(ips_of no-resets)" \
    >"$folder/held" 2>&1 &
  local held=$!
  echo "$held $(start_time $held)" >"$traffic_dir/held.pid"
  until_true 20 "both connections are open" grep -q open "$folder/held"
  kubectl patch service resets no-resets -p '{"spec": {"selector": {"app": "none"}}}' >/dev/null
  until_true 30 "the connection of the Service with resets ends" grep -q '^first ConnectionResetError' "$folder/held"
  wait $held || fail "the connection of the Service without resets has ended: $(cat "$folder/held")"
}

check_weights() {
  step "svcmap/weight: shares of new connections"
  local ip count3 count1
  ip=$(ips_of weights)
  for _ in {1..400}; do echo "tcp $ip 80 - 0"; done | ask node2
  count3=$(grep -c " ${weighted[0]}\$" "$folder/answers") count1=$(grep -c " ${weighted[1]}\$" "$folder/answers")
  echo "weight 3: $count3 connections, weight 1: $count1 connections"
  # The expected count is 300, with a standard deviation of 9.
  ((count3 + count1 == 400 && count3 > 255 && count3 < 345)) || fail "the shares do not match the weights 3, 1 and 0"
}

site_answers() {
  for ip in $(external $site4 $site6); do echo "tcp $ip 80 - 0"; done | (ask "$1") && [[ $(endpoints) =~ ^$2 ]]
}
check_anycast() {
  step "svcmap/no-local-endpoint: packets to an anycast address while the node has no endpoint"
  local ip
  for ip in $(external $site4 $site6); do
    in_network_of outside ip address replace "$ip/$([[ $ip == *:* ]] && echo 128 || echo 32)" dev lo
  done
  ! has4 || in_network_of control ip route replace $site4 via $outside4
  ! has6 || in_network_of control ip route replace $site6 via $outside6
  nsenter --target "$(pid_of outside)" --net /usr/bin/python3 -c '
import http.server, socket
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "10")
        self.end_headers()
        self.wfile.write(b"other-site")
http.server.ThreadingHTTPServer.address_family = socket.AF_INET6
http.server.ThreadingHTTPServer(("::", 80), Handler).serve_forever()' &>"$folder/site.log" &
  local site=$!
  echo "$site $(start_time $site)" >"$traffic_dir/site.pid"
  until_true 20 "without the annotation, node1 reaches the endpoint on node3" site_answers node1 site-
  kubectl annotate service site svcmap/no-local-endpoint=route >/dev/null
  until_true 20 "node1 has no endpoint, so it reaches the other site" site_answers node1 other-site
  until_true 20 "node3 has an endpoint, so it reaches this site" site_answers node3 site-
  kubectl patch deployment site -p '{"spec": {"template": {"spec": {"nodeName": "node1"}}}}' >/dev/null
  kubectl rollout status deployment/site --timeout=60s >/dev/null
  until_true 20 "the endpoint is on node1, so node1 reaches this site" site_answers node1 site-
  until_true 20 "node3 has no endpoint, so it reaches the other site" site_answers node3 other-site
  kill $site
}

# Wrong values: object, annotation, wrong value, text of the finding.
readonly wrong_values="service/ranges svcmap/end-ports media=7000 must be between 8000 and 65535, inclusive; the entry is ignored
service/by-client svcmap/endpoint-pick source must be \"Random\", \"ClientIP\" or \"ClientIPAndPort\"; endpoints are picked at random
service/by-client svcmap/pick-table-size 1000 must be 251, 1021 or 4093; the default is used
service/resets svcmap/reset-stale-tcp yes must be \"true\" or \"false\"; the annotation is ignored
service/site svcmap/no-local-endpoint pass must be \"route\"; the annotation is ignored
service/by-port svcmap/endpoint-picks ClientIP unknown annotation, must be one of
endpointslice/weights-3 svcmap/weight 1001 must be a number between 0 and 1000; the weight 1 is used"

event_count() {
  kubectl get events.events.k8s.io -o 'jsonpath={range .items[?(@.reportingController=="svcmap")]}{.regarding.kind}/{.regarding.name} {.reason} {.note}{"\n"}{end}' |
    grep -ic "^$1 PartIgnored .*metadata.annotations\[\"$2\"\].*$3" || true
}
has_one_event() { [[ $(event_count "$@") == 1 ]]; }
check_wrong_values() {
  step "wrong values: one Event in the cluster, and a finding on each node"
  local object annotation value text node
  while read -r object annotation value text; do
    kubectl annotate --overwrite "$object" "$annotation=$value" >/dev/null
  done <<<"$wrong_values"
  while read -r object annotation value text <&3; do
    for node in "${nodes[@]}"; do until_true 20 "finding of $object on $node" has_finding "$node" "metadata.annotations[\"$annotation\"]"; done
    until_true 40 "one Event of $object for $annotation" has_one_event "$object" "$annotation" "$text"
    echo "  $object $annotation=$value"
  done 3<<<"$wrong_values"
  # The default of each annotation: without findings.
  while read -r object annotation value text; do kubectl annotate "$object" "$annotation-" >/dev/null; done <<<"$wrong_values"
  for node in "${nodes[@]}"; do until_true 20 "no finding is left on $node" has_no_finding "$node" 'metadata.annotations["svcmap/'; done
}

check_permissions() {
  step "--events and --startup-taint without their RBAC rules"
  kubectl delete -f "$top/deploy/kubernetes/bridge/events.yaml" -f "$top/deploy/kubernetes/bridge/startup-taint.yaml" --ignore-not-found >/dev/null
  kubectl delete events --all >/dev/null  # Those of an earlier run.
  kubectl taint node node1 $taint=:NoSchedule --overwrite >/dev/null
  kubectl annotate --overwrite service by-port svcmap/endpoint-pick=source >/dev/null
  svcmap_with --events --startup-taint=$taint
  until_true 60 "svcmap-kube names the rule of --startup-taint" kube_log_contains node1 'RBAC rule required: get nodes, patch nodes'
  until_true 60 "svcmap-kube names the rules of --events" kube_log_contains node1 'no Events until the next start, RBAC rules required'
  until_true 20 "/healthz shows the error" healthz_shows_taint
  expect_count "Events without the RBAC rules" "$(event_count service/by-port svcmap/endpoint-pick '')" 0
  has_taint node1 || fail "the taint was removed without the RBAC rule"
  kubectl apply -f "$top/deploy/kubernetes/bridge/events.yaml" -f "$top/deploy/kubernetes/bridge/startup-taint.yaml" >/dev/null
  until_true 90 "the taint is removed after the rule was added" has_no_taint node1
  restart_svcmap
  until_true 60 "one Event with the RBAC rules" has_one_event service/by-port svcmap/endpoint-pick ''
  for node in "${nodes[@]}"; do expect_count "connections of svcmap-kube on $node to the API server" "$(api_connections "$node")" 1; done
  kubectl annotate --overwrite service by-port svcmap/endpoint-pick=ClientIPAndPort >/dev/null
}
expect_count() { [[ $2 == "$3" ]] || fail "$1: $2 instead of $3"; }
healthz_shows_taint() { in_network_of node1 curl -sf http://127.0.0.1:10246/healthz | grep -q 'startup taint'; }
has_taint() { kubectl get node "$1" -o 'jsonpath={.spec.taints[*].key}' | grep -qw $taint; }
has_no_taint() { ! has_taint "$1"; }
# The reads and the writes share one HTTP/2 connection.
api_connections() { on "$1" ss -Htnp state established 'dport = :6443' | grep -c '"svcmap-kube"' || true; }

annotations() {
  deploy_features
  check_permissions
  check_ranges
  check_picks
  check_weights
  check_anycast
  check_resets
  check_wrong_values
  kubectl delete -f "$folder/features.yaml" >/dev/null
}

readonly first_pods=20
# measure NAME TAINT COMMAND...: the command starts node3. Meanwhile, pods wait for the node. Stores the number of
# pods whose first connection, to the Service `kubernetes`, has failed.
measure() {
  local address failed
  address=$(host "$(kubectl get service kubernetes -o 'jsonpath={.spec.clusterIP}')")
  kubectl delete job first --ignore-not-found --cascade=foreground >/dev/null
  kubectl cordon node3 >/dev/null
  kubectl create -f - >/dev/null <<END
apiVersion: batch/v1
kind: Job
metadata: {name: first}
spec:
  parallelism: $first_pods
  completions: $first_pods
  template:
    metadata: {labels: {app: first}}
    spec:
      restartPolicy: Never
      nodeSelector: {kubernetes.io/hostname: node3}
      containers:
        - name: first
          image: localhost/agnhost:cluster
          command: [sh, -c, 'curl -sk -o /dev/null -m 3 https://$address/ && echo connected || echo failed']
END
  "${@:3}" >>"$folder/nodes.log" 2>&1
  until_true 60 "node3 has registered" kubectl get node node3
  kubectl uncordon node3 >/dev/null
  kubectl wait --for=condition=Complete job/first --timeout=240s >/dev/null
  kubectl logs -l app=first --tail=-1 --max-log-requests=$first_pods >"$folder/first"
  [[ $(grep -cE '^(connected|failed)$' "$folder/first") == "$first_pods" ]] || fail "logs of pods are missing: see $folder/first"
  failed=$(grep -c failed "$folder/first") || true
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$first_pods" "$failed" | tee -a "$work/features.tsv"
  until_true 60 "svcmap runs on all nodes" svcmap_runs
}
new_node() { EXTRA_KUBELET_FLAGS=$1 "$cluster_dir/cluster.sh" replace node3; }
rebooted_node() { "$cluster_dir/cluster.sh" reboot node3; }

startup_taint() {
  local number
  rm -f "$work/features.tsv"
  kubectl delete service -l app=many >/dev/null
  kubectl apply -f "$top/deploy/kubernetes/bridge/startup-taint.yaml" >/dev/null
  svcmap_with --startup-taint=$taint
  for number in {1..500}; do
    printf -- '---\napiVersion: v1\nkind: Service\nmetadata: {name: many-%s, labels: {app: many}}\n' "$number"
    printf 'spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}\n'
  done | kubectl create -f - >/dev/null
  step "first connections of $first_pods pods, under load"
  start_traffic  # Connections to node3 fail, so the failures are not checked.
  measure new no new_node ""
  measure new yes new_node --register-with-taints=$taint=:NoSchedule
  has_no_taint node3 || fail "the taint is left on the new node"
  failed_with_taint=$(tail -n 1 "$work/features.tsv" | cut -f 4)
  measure rebooted no rebooted_node
  kubectl taint node node3 $taint=:NoSchedule >/dev/null
  measure rebooted yes rebooted_node
  has_no_taint node3 || fail "the taint is left on the rebooted node"
  ((failed_with_taint + $(tail -n 1 "$work/features.tsv" | cut -f 4) == 0)) || fail "connections failed with the taint"
  stop_traffic >"$folder/load"
  kubectl delete service -l app=many >/dev/null
  kubectl delete job first >/dev/null
}

if (($# == 0)); then set -- annotations startup_taint; fi
use_svcmap
deploy_web
for part in "$@"; do "$part"; done
echo "features: passed ($SECONDS s)"
