#!/usr/bin/env bash
# Does an injected slow link become slow, and is it found? Four nodes with one rank each, Open MPI over TCP, every pair of
# nodes limited by itself, as behind a switch whose links are the narrow place: RUNS healthy runs, then RUNS with
# --inject slow-link:0-1:50%. Then every node limited as a whole, where the same traffic makes node0 a slow sender. Every
# run is printed; none is repeated. Needs root.
#
#   BIN=FILE ci/slow-link.sh [RUNS] | tee docs/evidence/slow-link-openmpi-COMMIT.txt
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
runs=${1:-10}
bin=$(readlink -f "${BIN:?the all_reduce_perf to run, built with the feature mpi}")
export CRITRANK_CLUSTER_STATE=${CRITRANK_CLUSTER_STATE:-/var/lib/critrank-slow-link} MPI=openmpi
nodes=(0 1 2 3)
ci/cluster.sh up ${#nodes[@]}
trap 'ci/cluster.sh down' EXIT

# A queue for each other node behind a limit of its own.
mesh() {
  local from to line
  for from in "${nodes[@]}"; do
    line="tc qdisc add dev eth0 root handle 1: htb r2q 1000"
    for to in "${nodes[@]}"; do
      [ "$from" != "$to" ] || continue
      line+=" && tc class add dev eth0 parent 1: classid 1:1$to htb rate $1"
      line+=" && tc qdisc add dev eth0 parent 1:1$to bfifo limit 200kb"
      line+=" && tc filter add dev eth0 parent 1: protocol ip u32 match ip dst 10.78.0.1$to/32 flowid 1:1$to"
    done
    ci/cluster.sh exec "node$from" "$line"
  done
}

series() {
  local run
  for run in $(seq "$runs"); do
    echo "$1 $run, load $(cut -d' ' -f1 /proc/loadavg):"
    ci/cluster.sh mpirun -n 4 -N 1 "$bin" --backend mpi -b 1M -e 1M -n 5 --localize "${@:2}" 2>&1 |
      grep -E 'stands out|not localised|confirmations|injected traffic, ' | sed 's/^critrank: [a-z]*: /  /'
  done
}

echo "commit $(git describe --always --dirty), $(nproc) cores, $(uname -r)"
mesh 200mbit
echo "== every pair of nodes limited to 200 Mbit/s"
series healthy
series slow-link:0-1:50% --inject slow-link:0-1:50%
echo "== every node limited to 400 Mbit/s"
for node in "${nodes[@]}"; do
  ci/cluster.sh exec "node$node" "tc qdisc del dev eth0 root"
  ci/cluster.sh shape "node$node" 400mbit
done
series healthy
series slow-link:0-1:50% --inject slow-link:0-1:50%
series slow-node:node2:50% --inject slow-node:node2:50%
