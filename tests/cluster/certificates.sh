# Certificates and kubeconfig files of the test cluster. Sourced by cluster.sh.
# shellcheck shell=bash

# certificate NAME SUBJECT [EXTENSION]: signs a certificate that is valid for servers and clients.
certificate() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$pki/$1.key" \
    -subj "$2" -out "$pki/$1.csr" 2>/dev/null
  openssl x509 -req -in "$pki/$1.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 365 \
    -extfile <(printf '%s\n' 'extendedKeyUsage=serverAuth,clientAuth' "${3-}") -out "$pki/$1.crt" 2>/dev/null
}

# kubeconfig NAME FILE: writes a kubeconfig with the certificate NAME.
kubeconfig() {
  cat >"$2" <<END
apiVersion: v1
kind: Config
clusters:
  - name: cluster
    cluster:
      server: $(server)
      certificate-authority-data: $(base64 -w0 "$pki/ca.crt")
users:
  - name: $1
    user:
      client-certificate-data: $(base64 -w0 "$pki/$1.crt")
      client-key-data: $(base64 -w0 "$pki/$1.key")
contexts:
  - name: default
    context: {cluster: cluster, user: $1}
current-context: default
END
}

make_certificates() {
  pki=$state/pki
  mkdir -p "$pki"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$pki/ca.key" \
    -subj /CN=svcmap-cluster -days 365 -out "$pki/ca.crt" 2>/dev/null
  openssl genrsa -out "$pki/service-account.key" 2048 2>/dev/null
  local name
  local names=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local
  certificate apiserver /CN=kube-apiserver \
    "subjectAltName=$names,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,IP:fd00:10:96::1,IP:$control4,IP:$control6"
  certificate admin /O=system:masters/CN=admin
  for name in kube-controller-manager kube-scheduler; do certificate "$name" "/CN=system:$name"; done
  for name in "${nodes[@]}"; do
    certificate "$name" "/O=system:nodes/CN=system:node:$name"
    kubeconfig "$name" "$state/$name/kubelet.conf"
  done
  for name in kube-controller-manager kube-scheduler; do kubeconfig "$name" "$state/control/$name.conf"; done
  kubeconfig admin "$state/admin.conf"
}
