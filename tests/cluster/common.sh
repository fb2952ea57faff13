# Names, addresses and functions of the test cluster. Sourced by the scripts in this directory.
# shellcheck shell=bash disable=SC2034

cluster_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$cluster_dir/../.." && pwd)
# Not below /var or /run, because the nodes see other directories there.
work=${CLUSTER_DIR:-$top/build/cluster}
state=$work/state    # Everything that `down` deletes.
images=$work/images  # Image archives, which are built once.
cgroup_name=svcmap-cluster${CLUSTER_DIR:+-$(basename "$CLUSTER_DIR")}

# NODES=0: only the control plane, for measurements.
mapfile -t nodes < <(seq -f 'node%g' "${NODES:-$(cat "$state/nodes" 2>/dev/null || echo 3)}")
readonly control4=172.30.0.1 control6=fd00:30::1
readonly outside4=172.31.0.2 outside6=fd00:31::2
readonly pods4=10.244.0.0/16 pods6=fd00:10:244::/56
readonly services4=10.96.0.0/16 services6=fd00:10:96::/112
readonly balancers4=172.29.0.0/24 balancers6=fd00:29::/112

# The address family or families of the cluster: ipv4, ipv6 or dual. `up` stores the family.
family=${FAMILY:-$(cat "$state/family" 2>/dev/null || echo dual)}
has4() { [[ $family != ipv6 ]]; }
has6() { [[ $family != ipv4 ]]; }
# CNI: the directory of a network plugin (README.md). Empty: the plugin `bridge`. `up` stores the directory.
cni=$(realpath -qe "${CNI:-$state/cni}" || true)
# both A B: prints A for IPv4, B for IPv6, and "A,B" for dual stack.
both() {
  case $family in
    ipv4) echo "$1" ;;
    ipv6) echo "$2" ;;
    dual) echo "$1,$2" ;;
  esac
}
first() { if has4; then echo "$1"; else echo "$2"; fi; }
bracketed() { if has4; then echo "$1"; else echo "[$2]"; fi; }

number() { echo "${1#node}"; }
node4() { echo "172.30.0.1$(number "$1")"; }
node6() { echo "fd00:30::1$(number "$1")"; }
pods_of4() { echo "10.244.$(number "$1").0/24"; }
pods_of6() { echo "fd00:10:244:$(number "$1")::/64"; }
server() { echo "https://$(bracketed $control4 $control6):6443"; }

fail() {
  echo "cluster: $*" >&2
  exit 1
}

# The process ID of process 1 of a machine ("control", "outside", "node1"), as seen on the host.
pid_of() {
  local pid start
  read -r pid start <"$state/$1/pid" 2>/dev/null || fail "$1 is not running"
  [[ -n $start && $(start_time "$pid") == "$start" ]] || fail "$1 has exited, see $state/$1/log"
  echo "$pid"
}
# Field 22 of /proc/PID/stat. A process ID alone could belong to a later process.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

# on MACHINE COMMAND...: runs the command in all namespaces of the machine.
on() {
  local pid
  pid=$(pid_of "$1") || return
  nsenter --target "$pid" --mount --uts --ipc --net --pid --cgroup --wdns=/ "${@:2}"
}
# in_network_of MACHINE COMMAND...: runs the command with the files of the host.
in_network_of() {
  local pid
  pid=$(pid_of "$1") || return
  nsenter --target "$pid" --net "${@:2}"
}

kubectl() { in_network_of control "$KUBERNETES/kubectl" --kubeconfig "$state/admin.conf" "$@"; }

# local_endpoints: makes every endpoint address local in the machine `outside`. Packets to Services leave
# through a device that drops them.
local_endpoints() {
  in_network_of outside sh -ec 'ip route add local 10.128.0.0/9 dev lo
    ip link add nowhere type veth peer name sink
    ip link set nowhere up; ip link set sink up
    ip address add 192.0.2.1/32 dev nowhere; ip neighbour add 192.0.2.2 lladdr 02:00:00:00:00:01 dev nowhere
    ip route add 10.96.0.0/16 via 192.0.2.2 dev nowhere onlink
    echo 1 >/proc/sys/net/ipv4/tcp_tw_reuse; echo 1024 65535 >/proc/sys/net/ipv4/ip_local_port_range'
}

# until_true SECONDS WHAT COMMAND...: repeats the command until it succeeds.
until_true() {
  local deadline=$((SECONDS + $1)) what=$2
  until "${@:3}" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || fail "not true after $1 s: $what"
    sleep 0.3
  done
}

if [[ -z ${KUBERNETES-} && -e $state/kubernetes ]]; then KUBERNETES=$(readlink "$state/kubernetes"); fi
