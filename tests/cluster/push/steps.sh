# Runs svcmapd with the manifests of `push`, and controllers that feed it. Sourced by documents.sh.
# shellcheck shell=bash

controller=  # Process ID.

# start_controller COMMAND...: starts a controller that connects to svcmapd on all nodes.
start_controller() {
  local node targets=()
  for node in "${nodes[@]}"; do targets+=("unix:///proc/$(pid_of "$node")/root/run/svcmap/svcmap.sock"); done
  nsenter --target "$(pid_of control)" --net "$@" "${targets[@]}" >>"$folder/controller.log" 2>&1 &
  controller=$!
  echo "$controller $(start_time $controller)" >"$traffic_dir/controller.pid"
}
stop_controller() {
  kill "-$1" "$controller"
  wait "$controller" 2>/dev/null || true
  controller=
}

python_controller() {
  start_controller env PYTHONPATH="$top/api/clients/python" \
    /usr/bin/python3 -B "$cluster_dir/push/push.py" "$(server)" "$state/pki"
}
go_controller() { start_controller "$folder/push" "$state/admin.conf"; }

serving_on_all_nodes() {
  local node
  for node in "${nodes[@]}"; do svcmap_serves_on "$node" || return 1; done
}

# scale REPLICAS: changes the number of endpoints. Waits until connections from each node reach this number
# of endpoints, and until deleted pods have ended.
scale() {
  local node
  kubectl scale deployment/web --replicas="$1" >/dev/null
  kubectl rollout status deployment/web --timeout=120s >/dev/null
  for node in "${nodes[@]}"; do
    until_true 60 "connections from $node reach $1 endpoints" reach_endpoints "$node" "$1"
  done
  until_true 60 "deleted pods have ended" pods_exist "$1"
}

push_steps() {
  step "install.md, push: svcmapd without access to the Kubernetes API, fed by the Python client"
  kustomization my-cluster push
  configuration my-cluster push
  documented install.md 'kubectl apply -k my-cluster'
  python_controller
  replace_kube_proxy
  kubectl -n kube-system get pods -l k8s-app=svcmap -o yaml | grep -q serviceAccountToken &&
    fail "a pod of push has a token of a service account"
  none_failed push-python
  scale 3
  none_new_failed push-python-scale-down
  scale 6
  none_failed push-python-scale-up

  step "push: kill -9 of the controller, and endpoints that change before the controller is back"
  stop_controller KILL
  kubectl scale deployment/web --replicas=7 >/dev/null
  kubectl rollout status deployment/web --timeout=60s >/dev/null
  reach_endpoints node1 6 || fail "svcmapd does not keep its objects without a controller"
  python_controller
  for node in "${nodes[@]}"; do until_true 60 "$node reaches 7 endpoints" reach_endpoints "$node" 7; done
  scale 6
  none_new_failed push-controller-killed
  stop_controller TERM

  if [[ -n ${KUBERNETES_SOURCES-} ]]; then
    step "push: a controller with client-go's informers and the Go client"
    "$cluster_dir/push/build.sh" "$KUBERNETES_SOURCES" "$folder/push"
    go_controller
    until_true 60 "svcmapd handles traffic" serving_on_all_nodes
    none_failed push-go
    scale 3
    none_new_failed push-go-scale-down
    scale 6
    none_failed push-go-scale-up
    update_endpoints
    counted endpoints-update-push-go
    ((new_failures <= kube_proxy_failures)) || problems+=("endpoints-update-push-go")
    stop_controller TERM
  else
    echo "  skipped: the Go client (KUBERNETES_SOURCES is not set)"
  fi
  back_to_kube_proxy
  none_failed push-back
}
