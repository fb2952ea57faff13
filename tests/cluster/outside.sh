#!/bin/bash
# Process 1 of a client outside the cluster, in another subnet than the nodes.
set -uo pipefail
mount -t proc proc /proc
hostname outside
ip link set lo up
exec sleep infinity
