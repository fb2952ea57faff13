#!/bin/bash
# Starts the units of deploy/systemd with the release build under systemd in a container, with all
# their restrictions. Checks that svcmapd programs Services, is restarted after a configuration change,
# a kill and a hang, and leaves its rules in the kernel, and that svcmap-kube starts without an API
# server. Needs root and takes about a minute, the first time longer.
set -euo pipefail
cd "$(dirname "$0")/.."

source .ci/container.sh

bin=${SVCMAP_BIN:-build/release/bin}
packages=$(.ci/deps.sh --print runtime | paste -sd,)
image=localhost/svcmap-systemd:$(sha256sum <<<"$packages" | cut -c 1-12)

fail() {
  echo "boot: $*" >&2
  [[ -z $container ]] || inside journalctl --no-pager --lines 40 --unit svcmapd >&2
  exit 1
}
inside() { podman exec "$container" "$@"; }
# until_true SECONDS WHAT COMMAND...: repeats COMMAND until it succeeds, and fails after SECONDS.
until_true() {
  local deadline=$((SECONDS + $1))
  until "${@:3}" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || fail "not reached within $1 s: $2"
    sleep 0.2
  done
  echo "  $2"
}
property() { inside systemctl show --property "$1" --value svcmapd; }
is() { [[ $(property "$1") == "$2" ]]; }
restarted() { is NRestarts "$1" && is ActiveState active; }

if ! podman image exists "$image"; then
  mmdebstrap --quiet --variant=apt --include="systemd-sysv,nftables,$packages" bookworm - |
    podman import --quiet - "$image"
fi

# The configuration sets a sysctl, and an oomScoreAdj that needs no privilege.
mkdir "$work/etc"
sed 's/tcpCloseWaitTimeout: 0s/tcpCloseWaitTimeout: 1m/; s/oomScoreAdj:.*/oomScoreAdj: 1000/' \
  deploy/kubernetes/push/config.conf >"$work/etc/config.conf"
echo 'SVCMAPD_FLAGS="--config=/etc/svcmap/config.conf"' >"$work/default"
sed 's/certificate-authority: .*/insecure-skip-tls-verify: true/; s/tokenFile: .*/token: anybody/
  s#server: .*#server: https://127.0.0.1:1#' deploy/kubernetes/base/kubeconfig.conf >"$work/etc/kubeconfig.conf"
echo 'SVCMAP_KUBE_FLAGS="--kubeconfig=/etc/svcmap/kubeconfig.conf"' >>"$work/default"
echo 'SVCMAP_ETCD_FLAGS="--etcd-endpoints=http://127.0.0.1:1 --prefix=/svcmap/v1/boot"' >>"$work/default"
mounts=()
for program in svcmapd svcmapctl svcmap-kube svcmap-etcd; do
  mounts+=("--volume=$PWD/$bin/$program:/usr/bin/$program:ro")
done
for unit in svcmapd.service svcmap-kube.service svcmap-etcd.service; do
  mounts+=("--volume=$PWD/deploy/systemd/$unit:/etc/systemd/system/$unit:ro")
done
container=$(podman run --detach --systemd=always --privileged --network=none --pids-limit=-1 \
  --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 \
  "${mounts[@]}" \
  --volume="$PWD/deploy/systemd/svcmap.sysusers.conf:/usr/lib/sysusers.d/svcmap.conf:ro" \
  --volume="$PWD/deploy/examples/demo.yaml:/demo.yaml:ro" \
  --volume="$work/default:/etc/default/svcmap:ro" --volume="$work/etc:/etc/svcmap" \
  "$image" /sbin/init)
until_true 30 "systemd is running" inside systemctl is-active multi-user.target

inside systemd-sysusers
inside systemctl start svcmapd || fail "svcmapd does not start"
is ActiveState active || fail "svcmapd is not active"
echo "  svcmapd starts as user $(property User) and reports readiness"
main=$(property MainPID)
inside grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' "/proc/$main/status"
[[ $(inside cat /proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait) == 60 ]] ||
  fail "ExecStartPre did not set the sysctl"
echo "  ExecStartPre has set the sysctl"
inside svcmapctl apply --prune -f /demo.yaml >/dev/null || fail "root cannot apply objects"
inside nft list map ip svcmap service-ips | grep -q 10.96.0.10 || fail "no Service is programmed"
echo "  svcmapd programs Services"

inside systemctl start svcmap-kube || fail "svcmap-kube does not start"
until_true 20 "svcmap-kube connects to its API server" \
  inside journalctl --unit svcmap-kube --grep "list failed.*resource=services.*Connection refused" --quiet

inside systemctl start svcmap-etcd || fail "svcmap-etcd does not start"
until_true 20 "svcmap-etcd connects to its etcd" inside journalctl --unit svcmap-etcd --grep "refused" --quiet

inside systemctl reload svcmapd || fail "svcmapd cannot be reloaded"
inside bash -c "kill -KILL $main"
until_true 20 "svcmapd restarts after a kill" restarted 1
sed -i 's/^metricsBindAddress:.*/metricsBindAddress: 127.0.0.1:10250/' "$work/etc/config.conf"
until_true 20 "svcmapd restarts after a configuration change" restarted 2
inside bash -c "kill -STOP $(property MainPID)"
until_true 90 "systemd restarts a svcmapd that hangs" restarted 3

inside systemctl stop svcmapd
inside nft list map ip svcmap service-ips | grep -q 10.96.0.10 || fail "the rules are missing"
echo "  stopped, rules stay in the kernel"
! inside journalctl --unit svcmapd --unit svcmap-kube --unit svcmap-etcd --grep 'Failed at step|denied|not permitted' --quiet --no-pager |
  grep . || fail "an operation was denied"
echo "boot: all checks passed under $(inside systemctl --version | head -n 1)"
