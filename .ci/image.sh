#!/bin/bash
# Builds the container image with podman, from Debian's own image or, where no registry can be
# reached, from a base that mmdebstrap makes. Then tries it as the DaemonSet in deploy/kubernetes/base
# would have it run: the kernel says what svcmapd may do, the bridge's user may feed it and nobody else,
# and the demo of the release build passes with svcmapd of the image. kubeadm-sysctls writes its sysctls,
# and take-over removes the chains of a kube-proxy, in a network namespace.
#   IMAGE=name (localhost/svcmap:VERSION)   BASE=image to build from   JOBS=compilers at a time
#   TRY_ONLY=1: the image is there
set -euo pipefail
cd "$(dirname "$0")/.."

source .ci/cgroups.sh

version=$(sed -n 's/^project(svcmap VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
image=${IMAGE:-localhost/svcmap:$version}
label=svcmap-image-$$
work=$(mktemp -d)
kube_proxy=
clean_up() {
  [[ -z $kube_proxy ]] || kill "$kube_proxy"
  podman ps --all --quiet --filter "label=$label" | xargs -r podman rm --force --time 1 >/dev/null
  [[ ! -e /run/netns/$label ]] || ip netns delete "$label"
  rm -rf "$work"
}
trap clean_up EXIT

fail() {
  echo "image: $*" >&2
  exit 1
}

build() {
  local base=${BASE:-docker.io/library/debian:12-slim}
  if [[ -z ${BASE-} ]] && ! timeout 60 podman pull --quiet "$base" >"$work/pull.log" 2>&1; then
    echo "image: no $base, so mmdebstrap makes a base: $(tail -n 1 "$work/pull.log")"
    base=localhost/svcmap-base:bookworm
    mmdebstrap --quiet --variant=apt bookworm - | podman import --quiet - "$base"
  fi
  # Isolated by chroot: that works where cgroups and namespaces cannot be had, too.
  podman build --isolation=chroot --network=host -f deploy/image/Dockerfile -t "$image" \
    --build-arg BASE="$base" --build-arg JOBS="${JOBS:-0}" --build-arg VERSION="$version" \
    --build-arg REVISION="$(git describe --always --dirty 2>/dev/null || echo unknown)" .
}

# podman_run OVERLAY/CONTAINER...: with the security context and the volumes of this container of the
# pod, and more options. No limit is raised and no cgroup is made: not every machine lets us. Without a
# cgroup podman insists on processes of its own; the node's are seen through /proc, as with --pid=host.
podman_run() {
  local overlay=${1%/*} options
  mapfile -t options < <(.ci/pod_as_podman.py "$overlay" "${1#*/}" "$work/$overlay" options)
  options=("${options[@]/#--pid=host/--volume=/proc:/proc}")
  podman run --label "$label" --cgroups=disabled --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 \
    "${options[@]}" "${@:2}"
}

# command_of OVERLAY/CONTAINER: into the array `command`.
command_of() {
  mapfile -t command < <(.ci/pod_as_podman.py "${1%/*}" "${1#*/}" "$work/${1%/*}" command)
}

# may_do CONTAINER CAPABILITIES: it has these, as a mask, and can have no others.
may_do() {
  local pid
  pid=$(podman inspect --format '{{.State.Pid}}' "$1")
  grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' "/proc/$pid/status"
  [[ $(awk '/^Cap(Eff|Bnd):|^NoNewPrivs:|^Seccomp:/ { print $2 }' "/proc/$pid/status" | xargs) == \
    "$2 $2 1 2" ]] || fail "svcmapd may do something else"
}
readonly net_admin=0000000000001000 net_admin_and_net_raw=0000000000003000

readonly ctl=(svcmapctl --address unix:///run/svcmap/svcmap.sock)

try_programs() {
  local program
  for program in svcmapd svcmap-kube svcmapctl; do
    podman_run base/svcmap-kube --rm --network=none "$image" "$program" --version
  done
}

# As the pod, but for its network.
try_pod() {
  local command agent
  command_of base/svcmapd
  agent=$(podman_run base/svcmapd --detach --network=none "$image" "${command[@]}")
  local as_bridge=(podman_run base/svcmap-kube --rm --network=none
    --volume="$PWD/deploy/examples/demo.yaml:/demo.yaml:ro")
  "${as_bridge[@]}" "$image" "${ctl[@]}" wait --for revision=0 ||
    { podman logs "$agent" >&2; fail "no svcmapd"; }
  may_do "$agent" "$net_admin"

  "${as_bridge[@]}" "$image" "${ctl[@]}" apply -f /demo.yaml || fail "the bridge's user cannot feed svcmapd"
  if "${as_bridge[@]}" --user=65533:65533 "$image" "${ctl[@]}" apply -f /demo.yaml >"$work/other.log" 2>&1; then
    fail "another user may feed svcmapd"
  fi
  echo "another user: $(tail -n 1 "$work/other.log")"
  podman rm --force --time 10 "$agent" >/dev/null
}

in_node() { ip netns exec "$label" "$@"; }

# What the ConfigMap of kubeadm has, as far as it matters; kind's has maxPerCore: 0 as well, which can be
# written in the first network namespace only.
config_of_kubeadm() {
  mkdir -p "$work/$1/config"
  cat >"$work/$1/config/config.conf" <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clusterCIDR: 10.244.0.0/16
healthzBindAddress: ""
mode: ""
conntrack:
  maxPerCore: 0
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
END
}

try_sysctls() {
  local close_wait=/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait command
  config_of_kubeadm kubeadm-sysctls
  command_of kubeadm-sysctls/sysctls
  in_node bash -c "echo 60 >$close_wait"
  podman_run kubeadm-sysctls/sysctls --rm --network="ns:/run/netns/$label" "$image" "${command[@]}" ||
    fail "the init container fails"
  [[ $(in_node cat "$close_wait") == 3600 ]] || fail "the sysctls are not written"
}

# until_says CONTAINER TEXT: its log has it, within a minute and a half.
until_says() {
  local deadline=$((SECONDS + 90))
  until podman logs "$1" 2>&1 | grep --fixed-strings -e "$2"; do
    ((SECONDS < deadline)) || { podman logs "$1" >&2; fail "svcmapd does not say: $2"; }
    sleep 0.2
  done
}

# What a kube-proxy leaves in both flavours of iptables stays while that runs, which has no port here, and
# goes afterwards, by the programs of the image.
try_take_over() {
  local flavour command agent
  for flavour in legacy nft; do
    in_node "iptables-$flavour-restore" --noflush <<END
*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.99/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-ABCDEFGHIJKLMNOP
COMMIT
END
  done
  config_of_kubeadm take-over
  command_of take-over/svcmapd
  agent=$(podman_run take-over/svcmapd --detach --network="ns:/run/netns/$label" "$image" "${command[@]}")
  local as_bridge=(podman_run take-over/svcmap-kube --rm --network=none
    --volume="$PWD/deploy/examples/demo.yaml:/demo.yaml:ro")
  "${as_bridge[@]}" "$image" "${ctl[@]}" wait --for revision=0 ||
    { podman logs "$agent" >&2; fail "no svcmapd"; }
  may_do "$agent" "$net_admin_and_net_raw"

  cp "$(command -v sleep)" "$work/kube-proxy"
  ip netns exec "$label" "$work/kube-proxy" infinity >/dev/null 2>&1 &  # No function: $! is the program.
  kube_proxy=$!
  "${as_bridge[@]}" "$image" "${ctl[@]}" apply --prune -f /demo.yaml || fail "svcmapd cannot be fed"
  until_says "$agent" "process $kube_proxy is kube-proxy"
  kill "$kube_proxy"
  kube_proxy=
  until_says "$agent" "ours serve alone"
  for flavour in legacy nft; do
    until_says "$agent" "removed from iptables-$flavour, table nat: KUBE-"
    in_node "iptables-$flavour-save" -t nat >"$work/left"
    ! grep KUBE- "$work/left" || fail "chains of iptables-$flavour are left"
  done
  podman rm --force --time 10 "$agent" >/dev/null
}

# The demo starts build/release/bin/svcmapd in a network namespace that is its node. In a mount
# namespace that file is the image's.
try_demo() {
  cat >"$work/svcmapd" <<END
#!/bin/bash
cd "$PWD"
label=$label work=$work
$(declare -f podman_run)
podman_run base/svcmapd --rm --network=host --volume=/tmp:/tmp "$image" svcmapd "\$@"
END
  chmod +x "$work/svcmapd"
  unshare --mount bash -c 'mount --bind "$0" build/release/bin/svcmapd && exec build/release/bin/svcmap-demo' \
    "$work/svcmapd" >"$work/demo.log" 2>&1 || { tail -n 40 "$work/demo.log"; fail "the demo failed"; }
  tail -n 1 "$work/demo.log"
}

[[ -n ${TRY_ONLY-} ]] || build
echo "== the programs of $image, $(podman image inspect --format '{{.Size}}' "$image" | numfmt --to=iec)"
try_programs
echo "== svcmapd as in the DaemonSet"
try_pod
ip netns add "$label"
in_node ip link set lo up
echo "== the sysctls of kubeadm-sysctls"
try_sysctls
echo "== what take-over removes"
try_take_over
echo "== the demo"
try_demo
echo "image: $image is built and tried"
