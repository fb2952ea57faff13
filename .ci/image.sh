#!/bin/bash
# Builds the container image with podman, from Debian's own image or, where no registry can be
# reached, from a base that mmdebstrap makes. Then tries it as the DaemonSet in deploy/kubernetes/base
# would have it run: the kernel says what svcmapd may do, the bridge's user may feed it and nobody else,
# and the demo of the release build passes with svcmapd of the image.
#   IMAGE=name (localhost/svcmap:VERSION)   BASE=image to build from   JOBS=compilers at a time
#   TRY_ONLY=1: the image is there
set -euo pipefail
cd "$(dirname "$0")/.."

source .ci/cgroups.sh

version=$(sed -n 's/^project(svcmap VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
image=${IMAGE:-localhost/svcmap:$version}
label=svcmap-image-$$
work=$(mktemp -d)
clean_up() {
  podman ps --all --quiet --filter "label=$label" | xargs -r podman rm --force --time 1 >/dev/null
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

# podman_run CONTAINER...: with the security context and the volumes of this container of the pod, and
# more options. No limit is raised and no cgroup is made: not every machine lets us.
podman_run() {
  local options
  mapfile -t options < <(.ci/pod_as_podman.py base "$1" "$work" options)
  podman run --label "$label" --cgroups=disabled --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 \
    "${options[@]}" "${@:2}"
}

try_programs() {
  local program
  for program in svcmapd svcmap-kube svcmapctl; do
    podman_run svcmap-kube --rm --network=none "$image" "$program" --version
  done
}

# As the pod, but for its network.
try_pod() {
  local command agent pid
  mapfile -t command < <(.ci/pod_as_podman.py base svcmapd "$work" command)
  agent=$(podman_run svcmapd --detach --network=none "$image" "${command[@]}")
  local ctl=("$image" svcmapctl --address unix:///run/svcmap/svcmap.sock)
  local as_bridge=(podman_run svcmap-kube --rm --network=none
    --volume="$PWD/deploy/examples/demo.yaml:/demo.yaml:ro")
  "${as_bridge[@]}" "${ctl[@]}" wait --for revision=0 || { podman logs "$agent" >&2; fail "no svcmapd"; }

  pid=$(podman inspect --format '{{.State.Pid}}' "$agent")
  grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' "/proc/$pid/status"
  # CAP_NET_ADMIN is bit 12.
  [[ $(awk '/^Cap(Eff|Bnd):|^NoNewPrivs:|^Seccomp:/ { print $2 }' "/proc/$pid/status" | xargs) == \
    "0000000000001000 0000000000001000 1 2" ]] || fail "svcmapd may do something else"

  "${as_bridge[@]}" "${ctl[@]}" apply -f /demo.yaml || fail "the bridge's user cannot feed svcmapd"
  if "${as_bridge[@]}" --user=65533:65533 "${ctl[@]}" apply -f /demo.yaml >"$work/other.log" 2>&1; then
    fail "another user may feed svcmapd"
  fi
  echo "another user: $(tail -n 1 "$work/other.log")"
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
podman_run svcmapd --rm --network=host --volume=/tmp:/tmp "$image" svcmapd "\$@"
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
echo "== the demo"
try_demo
echo "image: $image is built and tried"
