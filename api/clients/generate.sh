#!/bin/bash
# Generates the stubs of the Go and Python clients from proto/. `make clients` runs this script
# after a change to the schema. With an argument, the stubs are written to this directory instead, so
# that tests can compare them with the committed stubs.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=${1-api/clients}
module=$(sed -n 's/^module //p' api/clients/go/go.mod)
declare -A packages=(
  [svcmap/v1/objects.proto]=svcmapv1
  [svcmap/v1/control.proto]=svcmapv1
  [svcmap/rpc/v1/rpc.proto]=internal/rpcv1
)
etcd=svcmap/etcd/v3/etcd.proto

go_opt=module=$module,M$etcd=$module/internal/etcdv3
for proto in "${!packages[@]}"; do
  go_opt+=",M$proto=$module/${packages[$proto]}"
done

mkdir -p "$out/go" "$out/python"
protoc -I proto \
  --go_out="$out/go" --go_opt="$go_opt" \
  --go-grpc_out="$out/go" --go-grpc_opt="$go_opt" \
  --python_out="$out/python" --pyi_out="$out/python" \
  --grpc_python_out="$out/python" --plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin \
  "${!packages[@]}"

# A process can contain only one message with a name, and a controller can use etcd's own client. The
# messages therefore get another package. Their encoding does not depend on the package.
renamed=$(mktemp -d)
trap 'rm -rf "$renamed"' EXIT
mkdir -p "$renamed/$(dirname $etcd)"
sed 's/^package etcdserverpb;$/package svcmap.etcd.v3;/' "proto/$etcd" >"$renamed/$etcd"
protoc -I "$renamed" --go_out="$out/go" --go_opt="$go_opt" --python_out="$out/python" --pyi_out="$out/python" \
  "$etcd"
