#!/usr/bin/env bash
# Runs a benchmark under Slurm, inside an allocation or not, and keeps all that it says.
#
#   launch/srun.sh [SRUN OPTIONS --] BINARY [ARGS..]
#   launch/srun.sh -N2 --ntasks-per-node=8 --gpus-per-node=8 -- target/release/all_reduce_perf -b 8 -e 8G -f 2
#
# Output goes to results/<UTC>-<binary>/ as well, which all nodes must share. The exit code is the benchmark's own,
# also where srun hides it. CRITRANK_RESULTS names another folder than results.
set -euo pipefail
# shellcheck source=launch/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

options=()
case ${1:-} in
  -h | --help) usage 0 ;;
  -*)
    while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1") && shift; done
    [ $# -gt 0 ] || die 1 "a -- must stand between srun's options and the binary"
    shift
    ;;
esac
check_binary "${1:-}"
command -v srun > /dev/null || die 6 "no srun here; launch/mpirun.sh needs no Slurm"
# With another interface than its MPI's, every rank dies in MPI_Init or is a world of its own.
case $(binary_mpi "$1") in
  openmpi) mpi=(--mpi=pmix) ;;
  mpich) mpi=(--mpi=pmi2) ;;
  *) mpi=() ;;
esac

open_results "$@"
code=0
# Without --kill-on-bad-exit the other ranks wait for a dead one until the time limit. The caller's options come
# last, so that they win.
run_logged srun "${mpi[@]}" --kill-on-bad-exit=1 "${options[@]}" "${RUN[@]}" || code=$?
finish "$code"
