#!/usr/bin/env bash
# Late ranks between two hosts: 20 runs each of healthy ranks, of a rank that is late by 200 us, and of a CPU hog at a
# rank's core. Two nodes of a virtual cluster (ci/cluster.sh, a state of its own), a rank and a core each, Open MPI
# over TCP, ranks that yield. Prints every run and repeats none; ends with 1 where fewer than 19 of 20 late ranks are
# named, or one of them as a slow link, or any healthy one.
#
#   ci/late.sh [RUNS]
#
# BIN       all_reduce_perf, built with Open MPI (target-openmpi/debug/all_reduce_perf, which is built where missing)
# PRIORITY  1: the machine does other work as well, so the ranks run with real-time priority; where a hog shares its
#           core with rank 1, both are nice -20 instead, and only rank 0 is real-time. 0: as they are (0)
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
runs=${1:-20}
export PRIORITY=${PRIORITY:-0} CRITRANK_CLUSTER_SLOTS=1
export CRITRANK_CLUSTER_STATE=${CRITRANK_CLUSTER_STATE:-/var/lib/critrank-cluster-late}
BIN=$(readlink -f "${BIN:-target-openmpi/debug/all_reduce_perf}")
if ! [ -x "$BIN" ]; then
  MPICC=mpicc.openmpi CARGO_TARGET_DIR=target-openmpi cargo build --quiet --locked --no-default-features --features mpi \
    --bin all_reduce_perf
fi
args=(--backend mpi -b 8 -e 512 -f 8 -n 50 -w 5 -z 3 -I 1 --localize)

hog=
folder=$(mktemp -d)
# shellcheck disable=SC2016 # expands in the rank
printf '%s\n' '#!/bin/sh' 'rank=$OMPI_COMM_WORLD_RANK how="taskset -c $rank"' \
  'if [ "$PRIORITY" = 1 ] && [ "$rank$HOGGED" = 11 ]; then how="nice -n -20 $how"' \
  'elif [ "$PRIORITY" = 1 ]; then how="chrt -r 1 $how"; fi' 'exec $how "$@"' > "$folder/pinned"
chmod +x "$folder/pinned"
# shellcheck disable=SC2317 # called by the trap
leave() {
  [ -z "$hog" ] || kill "$hog"
  ci/cluster.sh down
  rm -r "$folder"
}
trap leave EXIT

# once KIND NUMBER WANTED-RANK FLAGS..: prints the run; whether it says what it must.
once() {
  local kind=$1 number=$2 wanted=$3 start=$SECONDS named
  shift 3
  printf '%s %s, load %s: ' "$kind" "$number" "$(cut -d' ' -f1-4 /proc/loadavg)"
  if ! timeout 200 ci/cluster.sh mpirun -np 2 -x PRIORITY -x HOGGED "$folder/pinned" "$BIN" "${args[@]}" "$@" \
    > "$folder/out" 2> "$folder/err"; then
    echo "did not end well"
    tail -n 5 "$folder/err"
    return 1
  fi
  grep -E '^critrank: [a-z]*: (late rank|slow )|localised' "$folder/err" | tr '\n' ' '
  echo "($((SECONDS - start)) s)"
  named=$(sed -nE 's/^critrank: warning: late rank ([0-9]+) .*/\1/p' "$folder/err")
  [ "$named" = "$wanted" ] && ! grep -qE '^critrank: warning: slow' "$folder/err"
}

# group KIND WANTED-RANK LEAST FLAGS..
group() {
  local kind=$1 wanted=$2 least=$3 right=0 number
  shift 3
  for ((number = 1; number <= runs; number++)); do
    if once "$kind" "$number" "$wanted" "$@"; then right=$((right + 1)); fi
  done
  echo "$kind: $right of $runs as it must be, at least $least"
  [ "$right" -ge "$least" ] || failed=1
}

failed=0 HOGGED=0
export HOGGED
ci/cluster.sh up 2
echo "$(git rev-parse --short HEAD)$(git diff --quiet HEAD -- src || echo ' with changes'), $(nproc) cores, PRIORITY=$PRIORITY, ${args[*]}"
group healthy "" "$runs"
group late 1 $((runs * 19 / 20)) --inject late:1:200us
HOGGED=1
how=(taskset -c 1)
[ "$PRIORITY" = 0 ] || how=(nice -n -20 "${how[@]}")
"${how[@]}" sh -c 'while :; do :; done' &
hog=$!
group hog 1 $((runs * 19 / 20))
exit "$failed"
