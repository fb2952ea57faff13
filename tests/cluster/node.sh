#!/bin/bash
# Process 1 of a node: containerd and a kubelet in their own namespaces. node.sh NODE
set -uo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
node=$1
own=$state/$node

mount --make-rshared /  # The kubelet and containerd propagate mounts between each other.
mount -t proc proc /proc
# The kubelet sets these sysctls for the whole machine, which is not ours to change.
for sysctl in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
  kernel/keys/root_maxbytes; do
  mkdir -p "$own/sysctls/$(dirname $sysctl)"
  cat "/proc/sys/$sysctl" >"$own/sysctls/$sysctl"
  mount --bind "$own/sysctls/$sysctl" "/proc/sys/$sysctl"
done

# sysfs of this network namespace, and the cgroup hierarchies with the cgroup of the node as their root.
mapfile -t hierarchies < <(awk '$3 == "cgroup" || $3 == "cgroup2" { print $2, $3, $4 }' /proc/mounts)
mount -t sysfs sysfs /sys
[[ ${hierarchies[0]} == "/sys/fs/cgroup cgroup2 "* ]] || mount -t tmpfs tmpfs /sys/fs/cgroup
for hierarchy in "${hierarchies[@]}"; do
  read -r path type options <<<"$hierarchy"
  mkdir -p "$path"
  if [[ $type == cgroup2 ]]; then
    mount -t cgroup2 cgroup2 "$path"
  else
    # Only the names of controllers are options of a further mount.
    controllers=$(tr , '\n' <<<"$options" | grep -vxE 'rw|nosuid|nodev|noexec|relatime|xattr|release_agent=.*' | paste -sd ,)
    mount -t cgroup -o "${controllers/#name=/none,name=}" cgroup "$path"
  fi
done

# The node has its own /run and /var. Other directories are those of the host.
mkdir -p "$own"/var/{lib/{containerd,kubelet,cni/net.d,svcmap},log,tmp}
mount --bind "$own/var" /var
mount -t tmpfs tmpfs /run
ln -sfn /run /var/run
# Image pulls fail immediately, because no name resolves and no route leads out of the cluster.
printf 'nameserver %s\n' "$(first $control4 $control6)" >/run/resolv.conf
mount --bind /run/resolv.conf "$(realpath /etc/resolv.conf)"
hostname "$node"
ip link set lo up
until [[ -e $state/network ]]; do sleep 0.05; done

plugins=/usr/lib/cni
if [[ -n $cni ]]; then
  # The network plugin adds its own program and its configuration.
  plugins=/var/lib/cni/bin
  mkdir -p $plugins
  cp /usr/lib/cni/* $plugins/
else
  cat >/var/lib/cni/net.d/10-bridge.conflist <<END
{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "mtu": 1500,
      "ipam": {
        "type": "host-local",
        "ranges": [$(has4 && echo "[{\"subnet\": \"$(pods_of4 "$node")\"}]")$([[ $family == dual ]] && echo ,)$(has6 && echo "[{\"subnet\": \"$(pods_of6 "$node")\"}]")],
        "routes": [$(has4 && echo '{"dst": "0.0.0.0/0"}')$([[ $family == dual ]] && echo ,)$(has6 && echo '{"dst": "::/0"}')]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
END
fi
cat >/run/containerd.toml <<END
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10"
  # Containers could not start: without CAP_SYS_RESOURCE a process cannot lower its oom_score_adj.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$plugins"
    conf_dir = "/var/lib/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
END
cat >/run/kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $state/pki/ca.crt}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
clusterDNS: [$(both $control4 $control6 | sed 's/,/, /')]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
# Space of the host's disk and memory is not divided among the nodes.
evictionHard: {memory.available: 1Mi, nodefs.available: 0%, imagefs.available: 0%, nodefs.inodesFree: 0%}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 5s
oomScoreAdj: 0
resolvConf: /run/resolv.conf
volumePluginDir: /var/lib/kubelet/plugins-exec
END

# again COMMAND...: restarts the command after its exit, as systemd does.
again() {
  while :; do
    "$@"
    sleep 1
  done
}
again containerd --config /run/containerd.toml &>"$own/containerd.log" &
until [[ -S /run/containerd/containerd.sock ]]; do sleep 0.1; done
for image in "$images"/*.tar "$KUBERNETES"/images/*.tar; do
  [[ ! -e $image ]] || ctr --namespace k8s.io images import "$image" >>"$own/images.log" 2>&1 &
  importers+=($!)
done
wait "${importers[@]}"
# shellcheck disable=SC2086
again "$KUBERNETES/kubelet" --config /run/kubelet.yaml --kubeconfig "$own/kubelet.conf" --hostname-override "$node" \
  --node-ip "$(both "$(node4 "$node")" "$(node6 "$node")")" --root-dir /var/lib/kubelet ${EXTRA_KUBELET_FLAGS-} &>"$own/kubelet.log" &
while :; do wait -n || sleep 1; done
