#!/bin/bash
# Checks which directories include headers of which other directories. nft/ includes neither proxy/ nor
# api/, and proxy/ does not include api/. In api/, the directories of the agent (svcmapd), the bridge
# (svcmap-kube), svcmap-etcd and the CLI (svcmapctl) do not include each other's headers, and the shared
# directories include none of them. No directory includes a header of a directory that depends on it. Prints
# `file:line: text` for each finding and fails if there is one.
set -uo pipefail
cd "$(dirname "$0")/.."

includes() {
  git grep -n '^#include "\(nft\|proxy\|api\)/' -- 'nft/*.h' 'nft/*.cc' 'proxy/*.h' 'proxy/*.cc' 'api/*.h' 'api/*.cc'
}

includes |
  awk -F'[:"]' '
    function owner_of(path, parts) {
      split(path, parts, "/")
      if (parts[1] != "api") return parts[1]
      return parts[2] in owner ? owner[parts[2]] : "shared"
    }
    BEGIN {
      split("access daemon grpc intake preflight screen", agent, " ")
      split("bundle check cli", cli, " ")
      for (i in agent) owner[agent[i]] = "agent"
      for (i in cli) owner[cli[i]] = "cli"
      owner["kube"] = "bridge"
      owner["etcd"] = "etcd"
      allowed["proxy", "nft"] = allowed["shared", "nft"] = allowed["shared", "proxy"] = 1
      split("agent bridge cli etcd", programs, " ")
      for (i in programs) {
        program = programs[i]
        allowed[program, "nft"] = allowed[program, "proxy"] = allowed[program, "shared"] = 1
      }
    }
    {
      from = owner_of($1)
      to = owner_of($4)
      if (from == to || (from, to) in allowed) next
      print $1 ":" $2 ": " from " must not include " to " (" $4 ")"
      failed = 1
    }
    END { exit failed }'
if ((${PIPESTATUS[1]})); then
  echo "includes: FAILED. .ci/includes.sh lists the allowed dependencies." >&2
  exit 1
fi

# tsort fails if the dependencies between directories contain a loop, and prints the directories of the loop.
if ! loop=$(includes | sed -E 's|^(.*)/[^/]+:[0-9]+:#include "(.*)/[^/]+"$|\1 \2|' | sort -u | tsort 2>&1 >/dev/null); then
  echo "includes: FAILED. These directories include each other's headers:" >&2
  echo "$loop" >&2
  exit 1
fi
