#!/bin/bash
# Opens the page of `svcmapctl fleet serve` in headless Chromium with three nodes, of which one is behind and
# one rejects objects, and checks what the browser shows. Writes a screenshot to the second argument. Usage:
# fleet_page.sh FOLDER-OF-THE-BINARIES SCREENSHOT.png. Needs root, etcd, etcdctl and chromium. Not part of
# `make test`, because no other test needs a browser.
set -euo pipefail

bin=$(realpath "$1")
picture=$(realpath -m "$2")
space=svcmap-page-$$
folder=$(mktemp -d)
pids=()

clean_up() {
  ((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
  wait
  ip netns del "$space"
  rm -rf "$folder"
}
ip netns add "$space"
trap clean_up EXIT
ip -n "$space" link set lo up

inside() { ip netns exec "$space" "$@"; }
put() { inside env ETCDCTL_API=3 etcdctl put "$1" "$2" >/dev/null; }
until_true() {
  for ((i = 0; i < 600; ++i)); do
    "$@" >"$folder/last.log" 2>&1 && return
    sleep 0.1
  done
  echo "not true after 60 s: $*" >&2
  cat "$folder"/*.log >&2
  return 1
}

status() {  # status NODE SEQ HEALTHY REJECTED REASON
  put "/status/nodes/$1" "{\"seq\":$2,\"epoch\":3,\"revision\":2077,\"healthy\":$3,\"reason\":\"$5\",\"rejected\":$4,
    \"held\":false,\"version\":\"0.1.0\",\"time\":\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\"}"
}

inside etcd --data-dir "$folder/etcd" >"$folder/etcd.log" 2>&1 &
pids+=($!)
until_true put /state/state/head '{"format":1,"seq":1046,"epoch":3,"nonce":"page"}'
for node in n1 n2 n3; do
  put "/state/nodes/$node" '{}'
  status "$node" 1040 true 0 ''
done
put /status/ask '{"seq":1040,"window_seconds":0}'
inside "$bin/svcmapctl" fleet serve --etcd-endpoints http://127.0.0.1:2379 --prefix /state --status-prefix /status \
  >"$folder/serve.log" 2>&1 &
pids+=($!)
until_true inside curl -sf http://127.0.0.1:10261/status.json -o "$folder/status.json"

# The changes appear in the list of latest changes.
put /status/ask '{"seq":1045,"window_seconds":0}'
status n1 1040 false 0 'svcmapd not synced: connection refused'
status n2 1045 true 2 ''
status n3 1045 true 0 ''
has() { inside curl -sf http://127.0.0.1:10261/status.json | grep -q "$1"; }
until_true has 'n1: ok -> behind,unhealthy'
until_true has 'n2: ok -> rejecting'

# The browser ends when the page is loaded, which can be before the first event, so it is started again.
browser() {
  inside timeout 180 chromium --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir="$folder/profile" \
    --hide-scrollbars --window-size=1100,690 --timeout=60000 "$@" http://127.0.0.1:10261/ 2>"$folder/chromium.log"
}
page_is_complete() {
  browser --dump-dom "$@" >"$folder/page.html"
  grep -q 'role="status">Live. Read from etcd at' "$folder/page.html"
}
until_true page_is_complete --screenshot="$picture"
for text in '<td>behind, unhealthy</td><td class="number">5</td>' '<td>rejecting</td>' \
  'svcmapd not synced: connection refused' 'n1: ok -&gt; behind,unhealthy'; do
  grep -qF -- "$text" "$folder/page.html" || { echo "the page does not contain: $text" >&2; cat "$folder/page.html" >&2; exit 1; }
done

# The name of a node must not become an element of the page.
status '<img src=x onerror=document.body.remove()>' 1045 true 1 ''
until_true has onerror
page_shows_name() { page_is_complete && grep -qF '<td>&lt;img src=x onerror=' "$folder/page.html"; }
until_true page_shows_name
echo "The page is correct. Screenshot: $picture"
