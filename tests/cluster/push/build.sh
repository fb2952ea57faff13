#!/bin/bash
# Builds main.go with the source tree of Kubernetes, which contains client-go: build.sh SOURCES OUTPUT
#
# Go's option -overlay adds main.go and svcmap's Go client to the tree without changing the tree. There,
# the client has another import path, because vendor/modules.txt does not list the client.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sources=$(realpath "$1") output=$(realpath "$2")
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
/usr/bin/python3 - "$here" "$sources" "$files" <<'END_OF_PYTHON'
import json, pathlib, sys
here, sources, files = map(pathlib.Path, sys.argv[1:])
client = here.parents[2] / "api/clients/go"
replace = {}
for number, path in enumerate([here / "main.go", *client.rglob("*.go")]):
    if "examples" in path.parts or path.name.endswith("_test.go"):
        continue
    inside = "main.go" if path.parent == here else pathlib.Path("client") / path.relative_to(client)
    copy = files / f"{number}.go"
    copy.write_text(path.read_text().replace(
        '"github.com/you/svcmap/api/clients/go', '"k8s.io/kubernetes/cmd/svcmap-push/client'))
    replace[str(sources / "cmd/svcmap-push" / inside)] = str(copy)
(files / "overlay.json").write_text(json.dumps({"Replace": replace}))
END_OF_PYTHON
cd "$sources"
CGO_ENABLED=0 GOFLAGS=-mod=vendor GOTOOLCHAIN=local GOPROXY=off "${GO:-go}" build -trimpath \
  -overlay "$files/overlay.json" -o "$output" ./cmd/svcmap-push
