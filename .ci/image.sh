#!/bin/bash
# Builds the container image with podman, from Debian's image or, if no registry is reachable, from a
# base that mmdebstrap creates. Then tests the image with the security context of the DaemonSet in
# deploy/kubernetes/base: the capabilities of svcmapd, that only the user of svcmap-kube can write, and
# the demo of the release build with svcmapd of the image. In a network namespace, kubeadm-sysctls sets
# its sysctls, and take-over removes the chains of a kube-proxy.
#   IMAGE=name (localhost/svcmap:VERSION)   BASE=base image   JOBS=number of compilers
#   TRY_ONLY=1: test an existing image   TWICE=1: build twice and compare the image IDs, without tests
#   PROGRAMS=directory of svcmapd, svcmapctl, svcmap-kube and svcmap-etcd: package these binaries instead of compiling
#   ARCH=arm64: image for another architecture, emulated by qemu; set PROGRAMS, because compiling takes hours.
#     qemu does not emulate netlink for nf_tables, so only the start of the programs and the SBOM are tested
set -euo pipefail
cd "$(dirname "$0")/.."

source .ci/cgroups.sh

version=$(sed -n 's/^project(svcmap VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
native=$(dpkg --print-architecture)
arch=${ARCH:-$native}
[[ $arch == "$native" ]] && suffix= || suffix=-$arch
image=${IMAGE:-localhost/svcmap:$version$suffix}
label=svcmap-image-$$
work=$(mktemp -d)
kube_proxy=
programs=  # Name of the image with the binaries of PROGRAMS.
clean_up() {
  [[ -z $kube_proxy ]] || kill "$kube_proxy"
  podman ps --all --quiet --filter "label=$label" | xargs -r podman rm --force --time 1 >/dev/null
  [[ ! -e /run/netns/$label ]] || ip netns delete "$label"
  [[ -z $programs ]] || podman rmi --force "$programs" >/dev/null 2>&1
  rm -rf "$work"
}
trap clean_up EXIT

fail() {
  echo "image: $*" >&2
  exit 1
}

# Lets the kernel start arm64 programs with qemu, also in containers. systemd does the same at boot.
emulate() {
  local misc=/proc/sys/fs/binfmt_misc
  [[ $arch != "$native" ]] || return 0
  [[ -e $misc/register ]] || mount -t binfmt_misc none "$misc"
  [[ -e $misc/qemu-aarch64 ]] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$misc/register"
}

build() {
  local base=${BASE:-docker.io/library/debian:12-slim}
  if [[ -z ${BASE-} ]] && ! timeout 60 podman pull --quiet --arch "$arch" "$base" >"$work/pull.log" 2>&1; then
    echo "image: $base is not available, creating a base with mmdebstrap: $(tail -n 1 "$work/pull.log")"
    base=localhost/svcmap-base:bookworm$suffix
    mmdebstrap --quiet --variant=apt --architectures="$arch" bookworm - |
      podman import --quiet --arch "$arch" - "$base"
  fi
  local dockerfile=deploy/image/Dockerfile strip=strip revision created
  [[ $arch == "$native" ]] || strip=aarch64-linux-gnu-strip
  if [[ -n ${PROGRAMS-} ]]; then
    mkdir -p "$work/root/programs"
    install -m 755 "$PROGRAMS"/{svcmapd,svcmapctl,svcmap-kube,svcmap-etcd} "$work/root/programs/"
    "$strip" --strip-debug "$work"/root/programs/*
    programs=localhost/svcmap-programs:$$
    tar -C "$work/root" -c . | podman import --quiet --arch "$arch" - "$programs"
    dockerfile=$work/Dockerfile
    # podman skips the stage "build", because nothing uses it.
    sed "s#--from=build#--from=$programs#" deploy/image/Dockerfile >"$dockerfile"
  fi
  revision=$(git describe --always --dirty --exclude='*' --abbrev=12 2>/dev/null || echo unknown)
  created=$(git log -1 --format=%ct 2>/dev/null || echo 0)
  # Isolation by chroot also works on machines without cgroups and namespaces. The time stamp of all files
  # is the date of the commit, so that equal files give an equal image.
  podman build --arch "$arch" --isolation=chroot --network=host -f "$dockerfile" -t "$image" "$@" \
    --timestamp "$created" --label org.opencontainers.image.created="$(date -u -d "@$created" +%FT%TZ)" \
    --build-arg BASE="$base" --build-arg JOBS="${JOBS:-0}" --build-arg VERSION="$version" \
    --build-arg REVISION="$revision" --build-arg CREATED="$created" .
}

# Builds without cached layers, so that two builds share nothing.
build_twice() {
  local first second
  build --no-cache
  first=$(podman image inspect --format '{{.Id}} {{.Digest}}' "$image")
  build --no-cache
  second=$(podman image inspect --format '{{.Id}} {{.Digest}}' "$image")
  printf 'first build:  %s\nsecond build: %s\n' "$first" "$second"
  [[ $first == "$second" ]] || fail "two builds give different images"
}

# Copies the SBOM out of the image, checks it, and prints the size of each package.
try_sbom() {
  local container
  container=$(podman create --label "$label" "$image")
  mkdir -p build/image "$work/unpacked"
  podman export "$container" | tar -x -C "$work/unpacked" usr/share var/lib/dpkg usr/bin
  podman rm "$container" >/dev/null
  cp "$work/unpacked/usr/share/doc/svcmap/sbom.spdx.json" build/image/
  /usr/bin/python3 -B .ci/check_sbom.py build/image/sbom.spdx.json "$work/unpacked" | tee build/image/sizes.txt
  ((PIPESTATUS[0] == 0)) || fail "the SBOM is wrong"
}

# podman_run OVERLAY/CONTAINER...: runs with the security context and the volumes of this container of
# the pod, and further options. Raises no limit and creates no cgroup, because not every machine permits
# this. Without a cgroup podman requires a PID namespace; mounting /proc shows the processes of the node,
# as --pid=host does.
podman_run() {
  local overlay=${1%/*} options
  mapfile -t options < <(.ci/pod_as_podman.py "$overlay" "${1#*/}" "$work/$overlay" options)
  options=("${options[@]/#--pid=host/--volume=/proc:/proc}")
  podman run --label "$label" --cgroups=disabled --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 \
    "${options[@]}" "${@:2}"
}

# command_of OVERLAY/CONTAINER: sets the array `command` to the command of the container.
command_of() {
  mapfile -t command < <(.ci/pod_as_podman.py "${1%/*}" "${1#*/}" "$work/${1%/*}" command)
}

# may_do CONTAINER CAPABILITIES: checks that its capabilities are exactly this mask.
may_do() {
  local pid
  pid=$(podman inspect --format '{{.State.Pid}}' "$1")
  grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' "/proc/$pid/status"
  [[ $(awk '/^Cap(Eff|Bnd):|^NoNewPrivs:|^Seccomp:/ { print $2 }' "/proc/$pid/status" | xargs) == \
    "$2 $2 1 2" ]] || fail "svcmapd has other capabilities"
}
readonly net_admin=0000000000001000 net_admin_and_net_raw=0000000000003000

readonly ctl=(svcmapctl --address unix:///run/svcmap/svcmap.sock)

try_programs() {
  local program
  for program in svcmapd svcmap-kube svcmap-etcd svcmapctl; do
    podman_run base/svcmap-kube --rm --network=none --arch="$arch" "$image" "$program" --version
  done
}

# Tests the security context of the pod. Only the network differs.
try_pod() {
  local command agent
  command_of base/svcmapd
  agent=$(podman_run base/svcmapd --detach --network=none "$image" "${command[@]}")
  local as_bridge=(podman_run base/svcmap-kube --rm --network=none
    --volume="$PWD/deploy/examples/demo.yaml:/demo.yaml:ro")
  "${as_bridge[@]}" "$image" "${ctl[@]}" wait --for revision=1 ||
    { podman logs "$agent" >&2; fail "svcmapd does not start"; }
  may_do "$agent" "$net_admin"

  "${as_bridge[@]}" "$image" "${ctl[@]}" apply -f /demo.yaml || fail "the user of svcmap-kube cannot apply objects"
  if "${as_bridge[@]}" --user=65533:65533 "$image" "${ctl[@]}" apply -f /demo.yaml >"$work/other.log" 2>&1; then
    fail "another user can apply objects"
  fi
  echo "another user: $(tail -n 1 "$work/other.log")"
  podman rm --force --time 10 "$agent" >/dev/null
}

in_node() { ip netns exec "$label" "$@"; }

# The relevant part of kubeadm's ConfigMap. kind's ConfigMap also has maxPerCore: 0, which can be set in
# the initial network namespace only.
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
  [[ $(in_node cat "$close_wait") == 3600 ]] || fail "the sysctls are not set"
}

# until_says CONTAINER TEXT: waits up to 90 s until its log contains TEXT.
until_says() {
  local deadline=$((SECONDS + 90))
  until podman logs "$1" 2>&1 | grep --fixed-strings -e "$2"; do
    ((SECONDS < deadline)) || { podman logs "$1" >&2; fail "the log of svcmapd does not contain: $2"; }
    sleep 0.2
  done
}

# Rules of kube-proxy in both variants of iptables are kept while kube-proxy runs (without ports here), and
# are then removed with the binaries of the image.
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
  "${as_bridge[@]}" "$image" "${ctl[@]}" wait --for revision=1 ||
    { podman logs "$agent" >&2; fail "svcmapd does not start"; }
  may_do "$agent" "$net_admin_and_net_raw"

  cp "$(command -v sleep)" "$work/kube-proxy"
  ip netns exec "$label" "$work/kube-proxy" infinity >/dev/null 2>&1 &  # Not in a function, so that $! is its process ID.
  kube_proxy=$!
  "${as_bridge[@]}" "$image" "${ctl[@]}" apply --prune -f /demo.yaml || fail "svcmapd does not accept objects"
  until_says "$agent" "process $kube_proxy is kube-proxy"
  kill "$kube_proxy"
  kube_proxy=
  until_says "$agent" "all kube-proxy rules removed"
  for flavour in legacy nft; do
    until_says "$agent" "kube-proxy chains removed backend=iptables-$flavour table=nat chains="
    in_node "iptables-$flavour-save" -t nat >"$work/left"
    ! grep KUBE- "$work/left" || fail "chains of iptables-$flavour are left"
  done
  podman rm --force --time 10 "$agent" >/dev/null
}

# The demo starts build/release/bin/svcmapd in the network namespace of its node. A mount namespace
# replaces this file with the binary of the image.
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

emulate
if [[ -n ${TWICE-} ]]; then
  build_twice
  try_sbom
  exit
fi
if [[ -z ${TRY_ONLY-} ]]; then build; fi
echo "== binaries of $image, $(podman image inspect --format '{{.Size}}' "$image" | numfmt --to=iec)"
try_programs
echo "== SBOM, licences and sizes"
try_sbom
if [[ $arch != "$native" ]]; then
  echo "image: $image built; its programs start under qemu"
  exit
fi
echo "== svcmapd with the security context of the DaemonSet"
try_pod
ip netns add "$label"
in_node ip link set lo up
echo "== the sysctls of kubeadm-sysctls"
try_sysctls
echo "== removal of kube-proxy rules by take-over"
try_take_over
echo "== the demo"
try_demo
echo "image: $image built and tested"
