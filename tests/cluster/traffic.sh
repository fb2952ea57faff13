# Traffic to the Service `web` from a pod, a node and a client outside the cluster. Sourced by the tests.
# shellcheck shell=bash

readonly external4=172.29.0.10 external6=fd00:29::10

# Deploys the Service and waits for its endpoints.
deploy_web() {
  sed "s|@EXTERNAL@|$(both "\"$external4\"" "\"$external6\"")|" "$cluster_dir/web.yaml" | kubectl apply -f - >/dev/null
  kubectl rollout status deployment/web --timeout=120s >/dev/null
  kubectl wait --for=condition=Ready pod/client --timeout=60s >/dev/null
  local node
  for node in "${nodes[@]}"; do
    until_true 30 "connections from $node reach all endpoints" reach_endpoints "$node" 6
  done
  # A router sends external IPs to node3.
  ! has4 || in_network_of control ip route replace $external4 via "$(node4 node3)"
  ! has6 || in_network_of control ip route replace $external6 via "$(node6 node3)"
}

# reach_endpoints NODE COUNT: whether connections to each address of the Service reach this number of endpoints.
reach_endpoints() {
  local ips ip host request
  read -r -a ips <<<"$(kubectl get service web -o 'jsonpath={.spec.clusterIPs[*]}')"
  for ip in "${ips[@]}"; do
    host=$ip
    [[ $ip != *:* ]] || host="[$ip]"
    # Random picks miss one of six endpoints in 165 connections with a probability of 6 * (5 / 6)^165 = 6e-13.
    for request in {1..165}; do echo "url = http://$host/hostname?$request"; done >"$state/requests"
    [[ $(in_network_of "$1" curl -s -m 20 --write-out '\n' -H 'Connection: close' -K "$state/requests" |
      sort -u | grep -c '^web-') == "$2" ]] || return 1
  done
}

# Prints the path of the network namespace of the pod `client`.
client_network() {
  local address namespace root
  address=$(kubectl get pod client -o 'jsonpath={.status.podIP}')
  root=/proc/$(pid_of node1)/root
  for namespace in "$root"/run/netns/cni-*; do
    if nsenter --net="$namespace" ip -brief address show dev eth0 2>/dev/null | grep -qF " $address/"; then
      echo "$namespace"
      return
    fi
  done
  fail "the network namespace of the pod with address $address was not found"
}

traffic=()  # Process IDs of traffic.py.
traffic_dir=$state/traffic

# each PREFIX SUFFIX IPV4 IPV6: prints the targets of one address in the families of the cluster.
each() {
  ! has4 || echo "$1:$3:$2"
  ! has6 || echo "$1:[$4]:$2"
}

# Records the last background process, so that `cluster.sh down` also ends it.
started_traffic() {
  traffic+=($!)
  echo "$! $(start_time $!)" >"$traffic_dir/$1.pid"
}

start_traffic() {
  local ips ip4 ip6 node inside outside=()
  rm -rf "$traffic_dir"
  mkdir -p "$traffic_dir"
  read -r -a ips <<<"$(kubectl get service web -o 'jsonpath={.spec.clusterIPs[*]}')"
  for ip in "${ips[@]}"; do if [[ $ip == *:* ]]; then ip6=$ip; else ip4=$ip; fi; done
  mapfile -t inside < <(each tcp 80 "${ip4-}" "${ip6-}"; each held 80 "${ip4-}" "${ip6-}"; each udp 81 "${ip4-}" "${ip6-}")
  for node in "${nodes[@]}"; do
    mapfile -t -O "${#outside[@]}" outside < <(each tcp 30080 "$(node4 "$node")" "$(node6 "$node")")
  done
  mapfile -t -O "${#outside[@]}" outside < <(each held 30080 "$(node4 node2)" "$(node6 node2)"
    each udp 30081 "$(node4 node2)" "$(node6 node2)"; each tcp 80 $external4 $external6)
  local client=/usr/bin/python3
  nsenter --net="$(client_network)" $client -B "$cluster_dir/traffic.py" pod "${inside[@]}" \
    >"$traffic_dir/pod" 2>"$traffic_dir/pod.failures" &
  started_traffic pod
  nsenter --target "$(pid_of node2)" --net $client -B "$cluster_dir/traffic.py" node "${inside[@]}" \
    >"$traffic_dir/node" 2>"$traffic_dir/node.failures" &
  started_traffic node
  nsenter --target "$(pid_of outside)" --net $client -B "$cluster_dir/traffic.py" outside "${outside[@]}" \
    >"$traffic_dir/outside" 2>"$traffic_dir/outside.failures" &
  started_traffic outside
  for _ in {1..10}; do finish_requests; done
  [[ $(failures) == 0 && $(ended) == 0 ]] || { cat "$traffic_dir"/*.failures; fail "connections fail before the first step"; }
}

# Waits until all requests that have started before the call have finished.
finish_requests() {
  local name expected=()
  for name in pod node outside; do
    until_true 20 "traffic from $name has started" grep -q finished "$traffic_dir/$name"
    expected+=("$name=$(($(grep -c finished "$traffic_dir/$name") + 1))")
  done
  kill -USR1 "${traffic[@]}"
  for name in "${expected[@]}"; do
    until_true 20 "requests from ${name%=*} finish" finished "${name%=*}" "${name#*=}"
  done
}
finished() { (($(grep -c finished "$traffic_dir/$1") >= $2)); }

# Number of failed requests of new connections, and of connections that have ended.
failures() { cat "$traffic_dir"/*.failures | grep -vc ' held:' || true; }
ended() { cat "$traffic_dir"/*.failures | grep -c ' held:' || true; }

# Ends the traffic, and prints the counts.
stop_traffic() {
  kill -TERM "${traffic[@]}"
  wait "${traffic[@]}"
  traffic=()
  cat "$traffic_dir"/{pod,node,outside} >"$traffic_dir/counts"
  /usr/bin/python3 - "$traffic_dir/counts" <<'END'
import json, sys
total = {"requests": 0, "failures": 0, "slow": 0}
for line in open(sys.argv[1], encoding="utf-8"):
    counts = json.loads(line)
    if "finished" in counts:
        continue
    print("{from:8} {to:36} requests {requests:6} failures {failures:4} slow {slow:4} slowest {slowest_s:6} s".format(**counts))
    for key in total:
        total[key] += counts[key]
print("total: requests {requests}, failures {failures}, slow {slow}".format(**total))
END
}
