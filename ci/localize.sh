#!/usr/bin/env bash
# Whom --localize names between real nodes: four nodes of the virtual cluster, PER_NODE (1) ranks each, Open MPI over
# TCP, ranks that yield. RUNS (20) runs while all nodes are healthy, then as many with node2 limited to 40 % of what it
# sends in a healthy sendrecv. Every run is printed; none is repeated. Needs root.
#
#   ci/localize.sh [RUNS [PER_NODE]] | tee docs/evidence/localize-openmpi-COMMIT.txt
#
# Fails unless nobody is named in any healthy run, and node2 alone (with several ranks: as a node) in all but one of
# twenty limited ones, each within 60 s from launch to end. A cluster of its own: another one may be up beside it, but
# the cores are shared.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
runs=${1:-20} per_node=${2:-1}
case $per_node in
  1) expected='^(slow_[a-z]* \[2\];?)+$' ;;
  *) expected="^slow_node \\[$(seq -s, $((2 * per_node)) $((3 * per_node - 1)))\\]$" ;;
esac
export CRITRANK_CLUSTER_STATE=${CRITRANK_CLUSTER_STATE:-/var/lib/critrank-localize}
export MPI=openmpi
target=${CARGO_TARGET_DIR:-target-openmpi}

MPICC=mpicc.openmpi cargo build --quiet --release --locked --no-default-features --features mpi \
  --bin all_reduce_perf --bin sendrecv_perf --target-dir "$target"
ci/cluster.sh up 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"; ci/cluster.sh down' EXIT
launch() { ci/cluster.sh mpirun -n $((4 * per_node)) -N "$per_node" "$PWD/$target/release/$1" --backend mpi "${@:2}"; }

echo "commit $(git describe --always --dirty), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $(uname -r)"
echo "== $per_node ranks a node; healthy rate: sendrecv of 4 MiB, what each node sends, five launches"
rates=()
for launch in 1 2 3 4 5; do
  rate=$(launch sendrecv_perf -b 4M -e 4M -n 20 -w 5 -c 0 2> "$folder/err" |
    awk '$3 == "float" { print $8 }')
  [ -n "$rate" ] || { cat "$folder/err" >&2 && exit 1; }
  echo "launch $launch: $rate GB/s"
  rates+=("$rate")
done
mbit=$(printf '%s\n' "${rates[@]}" | sort -g | awk 'NR == 3 { printf "%d", $1 * 8000 * 0.4 }')
echo "node2 is limited to 0.4 of the median: $mbit Mbit/s"

# series WHAT: RUNS runs, one line each; counts those in which somebody and in which exactly node2 was named.
series() {
  local run start took code named tests verdict
  someone=0 right=0 slow=0
  for run in $(seq "$runs"); do
    start=$(date +%s%N) code=0
    launch all_reduce_perf -b 1M -e 4M -f 2 -n 5 --localize --record "$folder/$1-$run.jsonl" \
      > "$folder/out" 2> "$folder/err" || code=$?
    took=$((($(date +%s%N) - start) / 1000000))
    [ "$code" = 0 ] || cat "$folder/err"
    named=$(sed -nE 's/.*"event":"finding","kind":"([a-z_]*)","ranks":(\[[0-9,]*\]).*/\1 \2/p' "$folder/$1-$run.jsonl" |
      paste -sd ';')
    tests=$(sed -nE 's/.*"event":"localised","tests":([0-9]+).*/\1/p' "$folder/$1-$run.jsonl")
    verdict=$(grep -E 'confirmations|stands out|not localised' "$folder/err" | sed 's/^critrank: [a-z]*: //' | paste -sd '|')
    printf '%s %2d: exit %d, %.1f s, %s tests, load %s, named: %s (%s)\n' "$1" "$run" "$code" \
      "$(awk "BEGIN { print $took / 1000 }")" "$tests" "$(cut -d' ' -f1 /proc/loadavg)" "${named:-nobody}" "$verdict"
    [ -z "$named" ] || someone=$((someone + 1))
    [[ ! $named =~ $expected ]] || right=$((right + 1))
    [ "$took" -le 60000 ] && [ "$code" = 0 ] || slow=$((slow + 1))
  done
}

echo "== healthy"
series healthy
healthy_named=$someone
ci/cluster.sh shape node2 "${mbit}mbit"
echo "== node2 limited"
slow_before=$slow
series limited
echo "healthy: somebody named in $healthy_named of $runs runs"
echo "limited: node2 alone named in $right of $runs runs"
echo "runs that failed or took more than 60 s: $((slow_before + slow))"
[ "$healthy_named" = 0 ] && [ $((right * 20)) -ge $((runs * 19)) ] && [ $((slow_before + slow)) = 0 ]
