#!/bin/bash
# Compares svcmapd with kube-proxy's modes, also with IPVS, which the kernels of other benchmark runs do not
# have. Prints the tables as notes. Fails if an opponent has no figures.
set -o pipefail
status=0
for workload in sync 'change --samples 20 --budget 20' 'latency --protocols tcp --flows 500'; do
  # shellcheck disable=SC2086  # The workload consists of several words.
  /svcmap/bin/svcmap-bench --time-limit 300 --shapes 1000x10,5000x10 --out /tmp/bench \
    --opponents svcmap,nftables,iptables-legacy,ipvs $workload | sed 's/^/note: /' || status=1
done
if grep -E ',(failed|over-limit|not-tried),' /tmp/bench/samples.csv; then status=1; fi
exit "$status"
