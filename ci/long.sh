#!/usr/bin/env bash
# Before a release, not on every change: property tests with ten times the cases, and every test that involves
# several ranks repeated, to find what fails one time in ten; whom --localize names, simulated (200 seeds) and between
# nodes (20 runs with one rank a node, 20 with two). Repeats are the first argument (10).
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=ci/install.sh
. ci/install.sh
repeats=${1:-10}
need_rust
install_packages "${TEST_PACKAGES[@]}"
install_tools

export CRITRANK_LONG=1 PROPTEST_CASES=${PROPTEST_CASES:-2560}
failed=0
once() { "$@" || { failed=$((failed + 1)) && echo "failed: $*" >&2; }; }
once cargo nextest run --locked --no-default-features --features nccl --no-fail-fast
for round in $(seq "$repeats"); do
  for mpi in openmpi mpich; do
    echo "== round $round of $repeats, $mpi"
    once env "MPICC=mpicc.$mpi" "CARGO_TARGET_DIR=target-$mpi" "CRITRANK_MPI=$mpi" \
      cargo nextest run --locked --no-fail-fast --test multirank --test groups
    once ci/cluster.sh up 4
    once ci/cluster.sh slurm
    once env "MPICC=mpicc.$mpi" "CARGO_TARGET_DIR=target-$mpi" "CRITRANK_MPI=$mpi" \
      cargo nextest run --locked --no-fail-fast --test cluster
  done
done
ci/cluster.sh down
once ci/localize.sh 20 1
once ci/localize.sh 20 2
echo "$failed of $((3 + repeats * 8)) runs failed"
[ "$failed" = 0 ]
