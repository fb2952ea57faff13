#!/bin/bash
# One etcd and three nodes in network namespaces: a controller's transactions reach all nodes, and the
# nodes keep their rules without etcd. Usage: fleet.sh [FOLDER OF THE BINARIES]. Needs root.
set -euo pipefail

bin=$(realpath "${1:-build/release/bin}")
id=svcmap-fleet-$$
folder=$(mktemp -d)
pids=()

clean_up() {
  local code=$?
  ((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
  wait
  for name in hub n1 n2 n3; do ip netns del "$id-$name" 2>/dev/null || true; done
  if ((code != 0)); then
    tail -n 5 "$folder"/*.log >&2
    echo "The demo has failed. The last log lines of each process are above." >&2
  fi
  rm -rf "$folder"
}
trap clean_up EXIT

# start NAMESPACE LOG COMMAND...
start() {
  ip netns exec "$id-$1" "${@:3}" >"$folder/$2.log" 2>&1 &
  pids+=($!)
}

# until_true SECONDS COMMAND...: repeats the command until it succeeds. Sets `took` to milliseconds.
until_true() {
  local begin limit
  begin=$(date +%s%3N)
  limit=$((begin + $1 * 1000))
  until "${@:2}"; do
    if (($(date +%s%3N) > limit)); then
      echo "not true after $1 s: ${*:2}" >&2
      return 1
    fi
    sleep 0.02
  done
  took=$(($(date +%s%3N) - begin))
}

# answers NODE TEXT: whether a TCP connection from the node to the clusterIP gets this answer.
answers() {
  local answer
  answer=$(ip netns exec "$id-$1" timeout 1 bash -c 'cat < /dev/tcp/10.96.0.10/80' 2>/dev/null) || return 1
  [[ $answer == "$2" ]]
}

expect() {  # expect SECONDS TEXT
  for node in n1 n2 n3; do
    until_true "$1" answers "$node" "$2"
    echo "  $node: $2 answered a connection to 10.96.0.10:80 (waited $took ms)"
  done
}

etcd_ctl() {
  ip netns exec "$id-hub" env ETCDCTL_API=3 etcdctl --endpoints http://10.9.0.254:2379 "$@"
}

json() { printf '"%s"' "$(printf %s "$1" | sed 's/[\\"]/\\&/g')"; }

# write SEQ PUTS: one transaction of the controller. It fails if another writer has changed the head.
seen=0
write() {
  etcd_ctl txn >"$folder/txn.log" <<END
mod("$prefix/state/head") = "$seen"

put $prefix/state/head $(json "{\"format\":1,\"seq\":$1,\"epoch\":1,\"nonce\":\"demo-$1\"}")
$2


END
  grep -q SUCCESS "$folder/txn.log"
  seen=$(etcd_ctl get "$prefix/state/head" -w fields | awk -F' : ' '/ModRevision/ {print $2}')
}

slice() {  # slice ADDRESS
  echo "put $prefix/state/endpointslices/shop/web-1 $(json "{\"apiVersion\":\"discovery.k8s.io/v1\",\"kind\":\"EndpointSlice\",\"metadata\":{\"namespace\":\"shop\",\"name\":\"web-1\",\"labels\":{\"kubernetes.io/service-name\":\"web\"}},\"addressType\":\"IPv4\",\"endpoints\":[{\"addresses\":[\"$1\"]}],\"ports\":[{\"name\":\"\",\"port\":8080,\"protocol\":\"TCP\"}]}")"
}

prefix=/svcmap/v1/demo
status=/svcmap-status/v1/demo
ip netns add "$id-hub"
ip -n "$id-hub" link set lo up
ip -n "$id-hub" link add br0 type bridge
ip -n "$id-hub" link set br0 up
for address in 254 101 102; do ip -n "$id-hub" addr add 10.9.0.$address/24 dev br0; done
for i in 1 2 3; do
  ip netns add "$id-n$i"
  ip -n "$id-hub" link add "n$i" type veth peer name eth0 netns "$id-n$i"
  ip -n "$id-hub" link set "n$i" master br0 up
  ip -n "$id-n$i" addr add "10.9.0.$i/24" dev eth0
  ip -n "$id-n$i" link set lo up
  ip -n "$id-n$i" link set eth0 up
  ip -n "$id-n$i" route add default via 10.9.0.254
done

start hub etcd etcd --data-dir "$folder/etcd" --listen-client-urls http://10.9.0.254:2379 \
  --advertise-client-urls http://10.9.0.254:2379 --listen-peer-urls http://10.9.0.254:2380
etcd_pid=$!
for i in 1 2; do
  start hub "web-$i" python3 -c "
import socketserver
class Answer(socketserver.BaseRequestHandler):
    def handle(self): self.request.sendall(b'web-$i')
socketserver.ThreadingTCPServer(('10.9.0.10$i', 8080), Answer).serve_forever()"
done
for i in 1 2 3; do
  start "n$i" "svcmapd-$i" "$bin/svcmapd" --node-name "n$i" --listen "unix://$folder/n$i.sock" \
    --state-dir "$folder/n$i-state" --metrics-bind-address ''
  start "n$i" "svcmap-etcd-$i" "$bin/svcmap-etcd" --node-name "n$i" --agent "unix://$folder/n$i.sock" \
    --etcd-endpoints http://10.9.0.254:2379 --prefix "$prefix" --status-prefix "$status"
done
etcd_is_ready() { etcd_ctl get "$prefix/state/head" >"$folder/ready.log" 2>&1; }
until_true 30 etcd_is_ready
echo "Started: etcd, two servers, and the nodes n1, n2 and n3 with svcmapd and svcmap-etcd"

write 1 "put $prefix/state/services/shop/web $(json '{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"shop","name":"web"},"spec":{"clusterIP":"10.96.0.10","ports":[{"port":80,"targetPort":8080,"protocol":"TCP"}]}}')
$(slice 10.9.0.101)
put $prefix/nodes/n1 $(json '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"addresses":[{"type":"InternalIP","address":"10.9.0.1"}]}}')
put $prefix/nodes/n2 $(json '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n2"},"status":{"addresses":[{"type":"InternalIP","address":"10.9.0.2"}]}}')
put $prefix/nodes/n3 $(json '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n3"},"status":{"addresses":[{"type":"InternalIP","address":"10.9.0.3"}]}}')"
echo "One transaction: three nodes, and Service shop/web with the endpoint web-1. The nodes list etcd after at most 10 s"
expect 30 web-1

write 2 "$(slice 10.9.0.102)"
echo "One transaction: web-2 replaces web-1"
expect 10 web-2
echo "svcmapctl fleet wait --seq 2:"
ip netns exec "$id-hub" "$bin/svcmapctl" fleet wait --seq 2 --timeout 30s --window 1s --prefix "$prefix" \
  --status-prefix "$status" --etcd-endpoints http://10.9.0.254:2379 | sed 's/^/  /'

kill "$etcd_pid"
etcd_is_gone() { ! kill -0 "$etcd_pid" 2>/dev/null; }
until_true 10 etcd_is_gone
echo "Stopped etcd"
expect 10 web-2
echo "All connections reached the expected server"
