#!/bin/bash
# A Kubernetes cluster of three nodes in namespaces of this machine, without images from a registry
# (README.md). All processes and all traffic stay in namespaces that `up` makes and `down` deletes.
#
#   cluster.sh up                       KUBERNETES=directory of binaries, FAMILY=ipv4|ipv6|dual (dual),
#                                       MODE=nftables|iptables: mode of kube-proxy, PROXY=none: no kube-proxy,
#                                       CNI=directory of a network plugin
#   cluster.sh down
#   cluster.sh reboot NODE              kills all processes of a node and starts the node again
#   cluster.sh replace NODE             like reboot, but starts a new node with an empty /var
#                                       EXTRA_KUBELET_FLAGS: separated by spaces, for up, reboot and replace
#   cluster.sh on MACHINE COMMAND...    MACHINE: node1, node2, node3, control, outside
#   cluster.sh kubectl ARGUMENT...
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
# shellcheck source=certificates.sh
source "$cluster_dir/certificates.sh"

usage() {
  cat >&2 <<END
cluster: set KUBERNETES to a directory with the programs kube-apiserver, kube-controller-manager,
kube-scheduler, kubelet, kubectl and kube-proxy, for example:

    make cluster KUBERNETES=/opt/kubernetes

The files of a release are in kubernetes-server-linux-amd64.tar.gz (directory kubernetes/server/bin), which
https://kubernetes.io/releases/download/ describes. For the end-to-end tests, add e2e.test and ginkgo from
kubernetes-test-linux-amd64.tar.gz, and the test images: either the programs agnhost and
regression-issue-74839, or archives that "podman save" has written, in the subdirectory images.
END
  exit 2
}

check_programs() {
  [[ -n ${KUBERNETES-} ]] || usage
  local program programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl kube-proxy)
  # Without nodes, a script starts what else it needs.
  ((${#nodes[@]})) || programs=(kube-apiserver kubectl)
  for program in "${programs[@]}"; do
    [[ -x $KUBERNETES/$program ]] || { echo "cluster: $KUBERNETES/$program is missing" >&2; usage; }
  done
  KUBERNETES=$(realpath "$KUBERNETES")
  export KUBERNETES
}

# hierarchies: the directories of the cgroup hierarchies.
hierarchies() { awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts; }

# start MACHINE SCRIPT...: starts a machine, and records process 1 of its PID namespace.
start() {
  local machine=$1 cgroup pid child network
  mkdir -p "$state/$machine"
  for cgroup in $(hierarchies); do
    mkdir -p "$cgroup/$cgroup_name/$machine"
    # In a new cgroup of version 1, both are empty and no process can join.
    if [[ -e $cgroup/cpuset.cpus ]]; then
      for file in cpuset.cpus cpuset.mems; do
        cat "$cgroup/$file" >"$cgroup/$cgroup_name/$file"
        cat "$cgroup/$file" >"$cgroup/$cgroup_name/$machine/$file"
      done
    fi
  done
  # The shell joins the cgroups of the machine before it makes the cgroup namespace, whose root they become.
  # --kill-child: the processes of the machine end with `unshare`.
  # shellcheck disable=SC2016
  setsid bash -c 'for cgroup in $(awk "\$3 == \"cgroup\" || \$3 == \"cgroup2\" { print \$2 }" /proc/mounts); do
      echo $$ >"$cgroup/$0/cgroup.procs"
    done
    exec unshare --net --mount --pid --uts --ipc --cgroup --fork --kill-child "$@"' \
    "$cgroup_name/$machine" "${@:2}" </dev/null &>"$state/$machine/log" &
  pid=$!
  echo "$pid $(start_time "$pid")" >"$state/$machine/parent"
  # The first children of the process are programs that the shell runs before it becomes `unshare`.
  until child=$(<"/proc/$pid/task/$pid/children") && child=${child% } &&
    network=$(readlink "/proc/${child:-0}/ns/net") && [[ $network != "$(readlink /proc/self/ns/net)" ]]; do
    kill -0 "$pid" 2>/dev/null || fail "$machine does not start: $(cat "$state/$machine/log")"
    sleep 0.02
  done
  echo "$child $(start_time "$child")" >"$state/$machine/pid"
}

# address MACHINE INTERFACE IPV4/LENGTH IPV6/LENGTH
address() {
  in_network_of "$1" ip link set "$2" up
  ! has4 || in_network_of "$1" ip address add "$3" dev "$2"
  ! has6 || in_network_of "$1" ip address add "$4" dev "$2" nodad
}
# route MACHINE TO4 VIA4 TO6 VIA6
route() {
  ! has4 || in_network_of "$1" ip route replace "$2" via "$3"
  ! has6 || in_network_of "$1" ip route replace "$4" via "$5"
}
# link MACHINE INTERFACE-IN-CONTROL
link() {
  in_network_of control ip link add "$2" type veth peer name eth0 netns "$(pid_of "$1")"
  in_network_of control ip link set "$2" up
}
sysctls() {
  local machine=$1 sysctl
  for sysctl in "${@:2}"; do
    in_network_of "$machine" sh -c 'echo "$1" >"/proc/sys/$0"' "${sysctl%=*}" "${sysctl#*=}"
  done
}

# connect NODE: connects the node to the bridge, and adds its routes.
connect() {
  local node=$1 other
  sysctls "$node" net/ipv4/ip_forward=1 net/ipv6/conf/all/forwarding=1
  # Packets of pods to Services pass the rules of the node, even if the endpoint is on the same bridge.
  sysctls "$node" net/bridge/bridge-nf-call-iptables=1 net/bridge/bridge-nf-call-ip6tables=1
  link "$node" "$node"
  in_network_of control ip link set "$node" master nodes
  address "$node" eth0 "$(node4 "$node")/24" "$(node6 "$node")/64"
  route "$node" default $control4 default $control6
  [[ -z $cni ]] || return 0
  route control "$(pods_of4 "$node")" "$(node4 "$node")" "$(pods_of6 "$node")" "$(node6 "$node")"
  for other in "${nodes[@]}"; do
    [[ $node == "$other" ]] ||
      route "$node" "$(pods_of4 "$other")" "$(node4 "$other")" "$(pods_of6 "$other")" "$(node6 "$other")"
  done
}

make_network() {
  local node
  sysctls control net/ipv4/ip_forward=1 net/ipv6/conf/all/forwarding=1
  # The bridge of the control plane is a switch: no connection tracking for packets between nodes.
  sysctls control net/bridge/bridge-nf-call-iptables=0 net/bridge/bridge-nf-call-ip6tables=0
  in_network_of control ip link add nodes type bridge
  address control nodes $control4/24 $control6/64
  for node in "${nodes[@]}"; do connect "$node"; done
  link outside outside
  address control outside 172.31.0.1/24 fd00:31::3/64
  address outside eth0 $outside4/24 $outside6/64
  route outside default 172.31.0.1 default fd00:31::3
  touch "$state/network"
}

# register NODE: waits until the kubelet has created the Node object, and sets its zone and its pod addresses.
register() {
  until_true 120 "$1 has registered" kubectl get node "$1"
  kubectl label node "$1" "topology.kubernetes.io/zone=zone$(number "$1")" >/dev/null
  kubectl patch node "$1" -p "{\"spec\": {\"podCIDR\": \"$(first "$(pods_of4 "$1")" "$(pods_of6 "$1")")\",
    \"podCIDRs\": [\"$(both "$(pods_of4 "$1")" "$(pods_of6 "$1")" | sed 's/,/", "/')\"]}}" >/dev/null
}

# The manifest of the network plugin, with the names that this cluster uses.
install_cni() {
  sed -E -e 's|^( *)(- )?image: .*|\1\2image: localhost/cni:cluster|' -e 's|path: /opt/cni/bin|path: /var/lib/cni/bin|' \
    -e 's|path: /etc/cni/net.d|path: /var/lib/cni/net.d|' "$cni/manifest.yaml" | kubectl apply -f - >/dev/null
}

# What kubeadm installs for kube-proxy, except the image.
install_kube_proxy() {
  sed -e "s|@SERVER@|$(server)|" -e "s|@PODS@|$(both $pods4 $pods6)|" -e "s|@MODE@|${MODE:-nftables}|" \
    -e "s|@BIND@|$(first 0.0.0.0 ::)|" "$cluster_dir/kube-proxy.yaml" |
    if [[ ${PROXY-} == none ]]; then sed '/^apiVersion: apps/,$d'; else cat; fi | kubectl apply -f - >/dev/null
  [[ ${PROXY-} != none ]] || return 0
  until_true 60 "pods of kube-proxy are ready" kubectl -n kube-system rollout status daemonset/kube-proxy --timeout=50s
}

up() {
  ((EUID == 0)) || fail "root privileges are required"
  check_programs
  [[ ! -e $state ]] || fail "a cluster exists in $state: run make cluster-down"
  local started=$SECONDS node
  if ((${#nodes[@]})); then
    "$cluster_dir/images.sh"
    echo "cluster: images are ready after $((SECONDS - started)) s"
  fi
  mkdir -p "$state"
  trap '[[ $? == 0 ]] || echo "cluster: failed, logs are in $state; make cluster-down removes what exists" >&2' EXIT
  echo "$family" >"$state/family"
  echo "${#nodes[@]}" >"$state/nodes"
  ln -s "$KUBERNETES" "$state/kubernetes"
  [[ -z $cni ]] || ln -s "$cni" "$state/cni"
  mkdir -p "$state/control" "${nodes[@]/#/$state/}"
  make_certificates
  start control "$cluster_dir/control.sh"
  start outside "$cluster_dir/outside.sh"
  for node in "${nodes[@]}"; do start "$node" "$cluster_dir/node.sh" "$node"; done
  make_network
  mkdir "$state/bin"
  cat >"$state/bin/kubectl" <<END
#!/bin/bash
exec nsenter --target $(pid_of control) --net "$KUBERNETES/kubectl" --kubeconfig "$state/admin.conf" "\$@"
END
  chmod +x "$state/bin/kubectl"
  until_true 60 "the API server is ready" kubectl get --raw /readyz
  echo "cluster: the API server is ready after $((SECONDS - started)) s"
  for node in "${nodes[@]}"; do
    register "$node"
  done
  ((${#nodes[@]})) || return 0
  [[ -z $cni ]] || install_cni
  install_kube_proxy
  # A network plugin can need a proxy.
  [[ -n $cni && ${PROXY-} == none ]] || kubectl wait --for=condition=Ready --timeout=120s nodes --all >/dev/null
  echo "cluster: ready after $((SECONDS - started)) s; use $state/bin/kubectl"
}

# end FILE: kills the recorded process, if it is still the same process.
end() {
  local pid start
  read -r pid start 2>/dev/null <"$1" || return 0
  [[ -n $start && $(start_time "$pid") == "$start" ]] || return 0
  kill -KILL "$pid" 2>/dev/null || true  # It can exit after the check.
  while [[ $(start_time "$pid") == "$start" ]]; do sleep 0.05; done
}

down() {
  local machine file cgroup
  [[ -e $state ]] || { echo "cluster: no cluster"; return; }
  # Process 1 of a PID namespace takes all processes of the namespace with it. Mounts and network
  # interfaces disappear with the last process of their namespaces.
  for file in "$state"/traffic/*.pid "$state"/*/pid "$state"/*/parent; do end "$file"; done
  for cgroup in $(hierarchies); do
    [[ ! -e $cgroup/$cgroup_name ]] || remove_cgroup "$cgroup/$cgroup_name"
  done
  for machine in "$state"/*/; do
    ! grep -q " $machine" /proc/self/mounts || fail "mounts are left below $machine"
  done
  rm -rf "$state"
  echo "cluster: removed"
}

# stop NODE: kills all processes of the node. Only its /var survives.
stop() {
  local cgroup
  [[ -n ${1-} && " ${nodes[*]} " == *" $1 "* ]] || fail "unknown node: ${1-}"
  check_programs
  end "$state/$1/pid"
  end "$state/$1/parent"
  for cgroup in $(hierarchies); do remove_cgroup "$cgroup/$cgroup_name/$1"; done
}
boot() {
  mv "$state/network" "$state/network.before"  # The node waits for its network.
  start "$1" "$cluster_dir/node.sh" "$1"
  connect "$1"
  mv "$state/network.before" "$state/network"
}
reboot() {
  stop "$@"
  boot "$1"
}
# replace NODE: a new node with an empty /var takes the name of the node.
replace() {
  stop "$@"
  kubectl delete node "$1" >/dev/null
  rm -rf "${state:?}/$1/var"
  boot "$1"
  register "$1"
}

# The processes of a cgroup may need a moment to disappear.
remove_cgroup() {
  local deadline=$((SECONDS + 20))
  until find "$1" -depth -type d -exec rmdir {} + 2>/dev/null; do
    [[ -e $1 ]] || return 0
    ((SECONDS < deadline)) || fail "cannot remove $1"
    sleep 0.2
  done
}

case ${1-} in
  up) up ;;
  down) down ;;
  reboot) reboot "${@:2}" ;;
  replace) replace "${@:2}" ;;
  on) on "${@:2}" ;;
  kubectl) kubectl "${@:2}" ;;
  *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
