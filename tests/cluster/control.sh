#!/bin/bash
# Process 1 of the control plane: etcd and the Kubernetes control plane in their own namespaces.
set -uo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
logs=$state/control pki=$state/pki

mount -t proc proc /proc
# Nothing of etcd reaches a disk: --unsafe-no-fsync does not exist in etcd 3.4.
mount -t tmpfs tmpfs /run
hostname control
ip link set lo up
until [[ -e $state/network ]]; do sleep 0.05; done

etcd --data-dir /run/etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --log-level warn --quota-backend-bytes 4294967296 &>"$logs/etcd.log" &

# EXTRA_APISERVER_FLAGS: for trials, separated by spaces.
# shellcheck disable=SC2086
"$KUBERNETES/kube-apiserver" --etcd-servers http://127.0.0.1:2379 \
  --bind-address "$(first 0.0.0.0 ::)" --advertise-address "$(first $control4 $control6)" \
  --secure-port 6443 --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" \
  --client-ca-file "$pki/ca.crt" --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
  --kubelet-preferred-address-types InternalIP \
  --kubelet-client-certificate "$pki/admin.crt" --kubelet-client-key "$pki/admin.key" \
  --service-account-key-file "$pki/service-account.key" \
  --service-account-signing-key-file "$pki/service-account.key" \
  --service-account-issuer https://kubernetes.default.svc.cluster.local \
  --service-cluster-ip-range "$(both $services4 $services6)" --allow-privileged=true --profiling=false \
  ${EXTRA_APISERVER_FLAGS-} &>"$logs/kube-apiserver.log" &

until "$KUBERNETES/kubectl" --kubeconfig "$state/admin.conf" get --raw /readyz &>/dev/null; do sleep 0.3; done
controller_manager() {
  "$KUBERNETES/kube-controller-manager" --kubeconfig "$state/control/kube-controller-manager.conf" \
    --leader-elect=false --service-account-private-key-file "$pki/service-account.key" --root-ca-file "$pki/ca.crt" \
    --use-service-account-credentials --cluster-cidr "$(both $pods4 $pods6)" --allocate-node-cidrs=false \
    --service-cluster-ip-range "$(both $services4 $services6)" --concurrent-service-endpoint-syncs 20 \
    --bind-address 127.0.0.1 "$@" &>"$logs/kube-controller-manager.log" &
}
# Without nodes, only scripts use the API server. CONTROLLERS: the controllers that they need.
if ((${#nodes[@]} == 0)); then
  [[ -z ${CONTROLLERS-} ]] || controller_manager --controllers "$CONTROLLERS"
  while :; do wait -n || sleep 1; done
fi
controller_manager
"$KUBERNETES/kube-scheduler" --kubeconfig "$state/control/kube-scheduler.conf" --leader-elect=false \
  --bind-address 127.0.0.1 &>"$logs/kube-scheduler.log" &
/usr/bin/python3 -B "$cluster_dir/dns.py" --kubeconfig "$state/admin.conf" --listen "$(both $control4 $control6)" \
  &>"$logs/dns.log" &
# Waits for all processes, and reaps orphans.
while :; do wait -n || sleep 1; done
