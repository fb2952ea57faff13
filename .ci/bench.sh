#!/bin/bash
# Runs the benchmark. `.ci/bench.sh full`: all opponents, with report and plots (about 75 minutes).
# `.ci/bench.sh quick`: the figures of tests/bench/report/bounds.json in three minutes; fails if a bound
# is missed. `.ci/bench.sh alone`: svcmapd only. `.ci/bench.sh published`: the cluster sizes of published
# figures of kube-proxy. Results are written to build/bench/ or to the second argument.
# docs/benchmarks.md explains them.
set -uo pipefail
cd "$(dirname "$0")/.."

kind=${1-}
case $kind in
full) out=${2-build/bench/$(date -u +%Y-%m-%dT%H%M%SZ)} ;;
quick | alone | published) out=${2-build/bench/$kind} ;;
*)
  echo "usage: .ci/bench.sh full|quick|alone|published [FOLDER]" >&2
  exit 2
  ;;
esac
if ! message=$(unshare --net true 2>&1); then
  echo "The benchmark needs network namespaces: run this as root. ($message)" >&2
  exit 1
fi
if [[ -e $out/samples.csv && $kind == full ]]; then
  echo "$out already contains samples: specify another directory." >&2
  exit 1
fi
mkdir -p "$out"
rm -f "$out"/{samples.csv,machine.json,commands.txt,failed.txt}

# bench OPTION... SUBCOMMAND...: runs svcmap-bench and records the command.
bench() {
  echo "svcmap-bench $*" | tee -a "$out/commands.txt" >&2
  build/release/bin/svcmap-bench --out "$out" "$@" || echo "svcmap-bench $*" >>"$out/failed.txt"
}

# Runs another benchmark binary of build/release, which prints its figures.
other() {
  echo "$1" | tee -a "$out/commands.txt" >&2
  "build/release/$1" | tee "$out/${1##*/}.txt" || echo "$1" >>"$out/failed.txt"
}

if [[ $kind == alone ]]; then
  other bin/svcmap-bench-conntrack
  other bin/svcmap-bench-push
  other bin/svcmap-bench-kube
  other bin/svcmap-bench-delay
  other tests/instructions_test
  [[ ! -e $out/failed.txt ]]
  exit
fi

if [[ $kind == published ]]; then
  layouts=svcmap,nftables,nftables-single,nftables-shared
  bench --opponents $layouts --shapes 44125x1,45000x1,5000x50,10000x2 sync
  bench --opponents $layouts --shapes 10000x2 change --budget 1
  bench --opponents direct,$layouts --shapes 30000x1 latency
  [[ ! -e $out/failed.txt ]]
  exit
fi

if [[ $kind == quick ]]; then
  programming=(--pin --time-limit 20 --opponents 'netlink,svcmap,nftables,iptables-legacy'
    --shapes '1000x10,5000x10')
  {
    bench "${programming[@]}" sync
    bench "${programming[@]}" change --samples 100 --budget 1
    bench --time-limit 20 --opponents 'direct,svcmap,nftables' --shapes 5000x10 \
      latency --protocols tcp --flows 2000
  } >"$out/tables.md"
  echo "The tables are in $out/tables.md. Took $SECONDS s."
  [[ ! -e $out/failed.txt ]] || echo "FAILED: $(paste -sd ';' "$out/failed.txt")"
  /usr/bin/python3 -B tests/bench/report/check.py "$out" && [[ ! -e $out/failed.txt ]]
  exit
fi

/usr/bin/python3 -B -m unittest discover -s tests/bench/report -p plots_test.py || exit

others=nftables,iptables-legacy
sizes=100x10,1000x10,5000x10,5000x50,10000x10,30000x10,100000x10
# iptables-nft exceeds the limit at 5000x10, so it takes part only here.
bench --opponents netlink,svcmap,$others,iptables-nft --time-limit 60 --shapes $sizes sync
bench --opponents netlink,svcmap,$others,iptables-nft,nftables-single --time-limit 60 --shapes 1000x1,44000x1 sync
# Without the start of nft processes.
bench --opponents svcmap,nftables,nftables-library --time-limit 60 --shapes 1000x10,10000x10 sync
bench --opponents svcmap,nftables,nftables-library --time-limit 60 --shapes 1000x10,10000x10 \
  change --budget 1
programming=(--opponents netlink,svcmap,$others --time-limit 30)
packets=(--opponents direct,svcmap,$others --time-limit 30)
bench "${programming[@]}" --shapes 1000x10,10000x10,100000x10 change --budget 1
bench "${packets[@]}" --shapes 1000x10,10000x10,100000x10 latency
bench "${programming[@]}" --shapes 10000x10 churn --seconds 4
bench "${packets[@]}" --shapes 10000x10 latency --during sync
bench "${packets[@]}" --shapes 10000x10 latency --during repair
bench "${packets[@]}" --shapes 1000x10,10000x10,100000x10 connections --seconds 1
bench "${programming[@]}" --shapes 10000x10 restart
bench "${programming[@]}" --shapes 10000x10 repair
bench "${programming[@]}" --shapes 10000x10 --mix mixed sync
bench "${programming[@]}" --shapes 10000x10 --mix everything sync
bench "${programming[@]}" --shapes 10000x10 --mix mixed change --budget 1

/usr/bin/python3 -B tests/bench/report/report.py "$out" || exit
/usr/bin/python3 -B tests/bench/report/check.py --bounds tests/bench/report/targets.json "$out"
echo "The report is $out/report.md. Took $((SECONDS / 60)) min."
if [[ -e $out/failed.txt ]]; then
  echo "svcmap-bench: FAILED: $(paste -sd ';' "$out/failed.txt")"
  exit 1
fi
