#!/usr/bin/env bash
# Acceptance on GPUs: every collective, type, mode and failure with NCCL. Builds nothing.
#
#   BIN_DIR=target/release OUT=. ci/gpu.sh [GROUP..]
#
# Groups: collectives types modes failures (all four).
#
# One GPU is enough; with two, collectives run over both as well. Needs bash, awk and an MPI launcher (MPIRUN, mpirun).
# Every check prints PASS or FAIL; all that the binaries say goes to OUT/gpu.log, and a short table comes last. The
# exit code is 1 where a check failed.
#
# Four ranks share one GPU by NCCL_HOSTID, which makes NCCL take them for four hosts: 20 ms an operation, so few.
set -uo pipefail
BIN_DIR=${BIN_DIR:-target/release}
OUT=${OUT:-.}
MPIRUN=${MPIRUN:-mpirun}
mkdir -p "$OUT"
OUT=$(readlink -f "$OUT")
log=$OUT/gpu.log
: > "$log"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

COLLECTIVES=(all_gather all_reduce alltoall alltoallv broadcast gather hypercube reduce reduce_scatter scatter sendrecv)
REDUCING=(all_reduce reduce reduce_scatter)
[ -x "$BIN_DIR/all_reduce_perf" ] || { echo "no $BIN_DIR/all_reduce_perf; set BIN_DIR" >&2 && exit 1; }
gpus=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU')
[ "$gpus" -gt 0 ] || { echo "no GPU here: nvidia-smi lists none" >&2 && exit 1; }
pair=$((gpus > 1 ? 2 : 1))

mpi=("$MPIRUN")
per_rank=
if "$MPIRUN" --version 2>&1 | grep -qiE 'open.?mpi|openrte|prte'; then
  mpi+=(--bind-to none --oversubscribe)
  [ "$(id -u)" != 0 ] || mpi+=(--allow-run-as-root)
  per_rank=OMPI_COMM_WORLD_RANK
else
  per_rank=PMI_RANK
fi

# Each rank a host of its own to NCCL, all on the first GPU.
cat > "$work/shared" << END
#!/bin/sh
NCCL_HOSTID=host\$$per_rank NCCL_SOCKET_IFNAME=lo NCCL_TESTS_DEVICE=0 exec "\$@"
END
# As it is started: all ranks on the first GPU, which NCCL refuses.
cat > "$work/crowded" << END
#!/bin/sh
NCCL_TESTS_DEVICE=0 exec "\$@"
END
chmod +x "$work/shared" "$work/crowded"

passed=0 failed=0 ended=() code=0 seconds=0

# launch RANKS [wrapper] NAME ARGS..: leaves its exit code in `code`, its output in $work/out and $work/err.
launch() {
  local ranks=$1 wrapper=() begin=$SECONDS
  shift
  [ ! -x "$work/$1" ] || { wrapper=("$work/$1") && shift; }
  code=0
  timeout -k 5 60 "${mpi[@]}" -np "$ranks" "${wrapper[@]}" "$BIN_DIR/$1_perf" "${@:2}" \
    > "$work/out" 2> "$work/err" < /dev/null || code=$?
  seconds=$((SECONDS - begin))
  {
    echo "== $ranks ranks ${wrapper[*]##*/} $* (exit code $code, $seconds s)"
    cat "$work/out" "$work/err"
  } >> "$log"
}

# verdict NAME WHAT CONDITION..: of a launch.
verdict() {
  if "${@:3}"; then
    passed=$((passed + 1))
    echo "PASS $1 ($2)"
  else
    failed=$((failed + 1))
    ended+=("$1 ($2): exit code $code")
    echo "FAIL $1 ($2): exit code $code"
    tail -n 8 "$work/err" | sed 's/^/     /'
  fi
}

# right ROWS [EXTRA]: exit code 0, so many rows, each with its fields and #wrong 0 or N/A, and at least one 0.
right() {
  [ "$code" = 0 ] && grep -q '^# Out of bounds values : 0 OK' "$work/out" && awk -v rows="$1" -v extra="${2:-0}" '
    /^ +[0-9]/ {
      found++
      # -I puts four columns behind each #wrong.
      out = $9; place = $(NF - extra / 2)
      if (NF != 13 + extra || (out != "0" && out != "N/A") || (place != "0" && place != "N/A")) { bad++; print > "/dev/stderr" }
      if (out == "0" || place == "0") checked++
    }
    END { exit !(found == rows && !bad && checked > 0) }' "$work/out"
}

# rows_right LEAST: as `right`, for a number of rows that depends on what NCCL has; waived ones are no rows.
rows_right() {
  local rows
  rows=$(grep -cE '^ +[0-9]' "$work/out")
  [ "$rows" -ge "$1" ] && right "$rows"
}

fails() { [ "$code" = "$1" ] && { [ -z "${2:-}" ] || grep -qE "$2" "$work/err" "$work/out"; }; }

every_collective() {
  local name ranks=$1 rows=$2 wrapper=()
  [ -z "$3" ] || wrapper=("$3")
  for name in "${COLLECTIVES[@]}"; do
    launch "$ranks" "${wrapper[@]}" "$name" "${@:4}"
    verdict "$name" "$ranks ranks${3:+, $3 GPU}: ${*:4}" right "$rows"
  done
}

types() {
  local name
  for name in "${REDUCING[@]}"; do
    # 10 types with 5 reductions at least: what NCCL's version lacks, and what cannot be checked, is waived.
    launch "$pair" "$name" -d all -o all -b 64K -e 64K -n 2 -w 1 -c 1
    verdict "$name" "$pair ranks, all types and reductions" rows_right 40
    verdict "$name" "int8 and double" has_types int8 double
  done
  for name in "${COLLECTIVES[@]}"; do
    [[ " ${REDUCING[*]} " != *" $name "* ]] || continue
    launch "$pair" "$name" -d all -b 1M -e 1M -n 2 -w 1 -c 1
    verdict "$name" "$pair ranks, all types" rows_right 10
    verdict "$name" "int8 and double" has_types int8 double
  done
}

modes() {
  local z
  for z in 0 1 2 3; do
    launch "$pair" all_reduce -z "$z" -b 8 -e 1M -f 1024 -n 10 -c 1
    verdict all_reduce "-z $z" right 2
    launch "$pair" all_reduce -z "$z" -I 1 -b 8 -e 1M -f 1024 -n 10 -c 1
    verdict all_reduce "-z $z -I 1" right 2 8
  done
  launch "$pair" all_reduce -S 1 -b 8 -e 8 -n 2 -c 1
  verdict all_reduce "-S 1" right_with_time
  launch "$pair" all_reduce -C 1 -b 8 -e 1M -f 1024 -n 5 -c 1
  verdict all_reduce "-C 1" right 2
  launch "$pair" all_reduce -u 1 -b 8 -e 1M -f 1024 -n 5 -c 1
  verdict all_reduce "-u 1" right 2
  launch "$pair" all_reduce -N 5 -b 8 -e 1M -f 1024 -n 5 -c 1
  verdict all_reduce "-N 5" right 10
  NCCL_DEBUG=INFO launch "$pair" all_reduce -b 8 -e 1M -f 1024 -n 5 -c 1
  verdict all_reduce "NCCL_DEBUG=INFO" whole_table
}

has_types() {
  local type
  for type; do grep -qE "^ +[0-9]+ +[0-9]+ +$type " "$work/out" || return 1; done
}

# The time of day is one field or two more.
right_with_time() { [ "$code" = 0 ] && grep -qE '^ +8 .*[0-9]{2}:[0-9]{2}:[0-9]{2}' "$work/out"; }

whole_table() { right 2 && ! grep -q 'NCCL INFO' "$work/out"; }

failures() {
  launch "$((gpus + 1))" all_reduce -b 8 -e 8 -n 2
  verdict all_reduce "more ranks than GPUs: exit code 5" fails 5 'Invalid number of GPUs'
  launch 2 crowded all_reduce -b 8 -e 8 -n 2
  verdict all_reduce "two ranks of one GPU: exit code 3" fails 3
  if [ "$pair" = 2 ]; then
    launch 2 all_reduce --inject corrupt:1:flipped -b 1K -e 1K -n 2
    verdict all_reduce "a flipped bit: exit code 7, named" fails 7 'rank 1 .*one bit flipped'
    launch 2 all_reduce --inject hang:1:3 -T 5 -b 8 -e 8 -n 10
    verdict all_reduce "a rank hangs in the loop: exit code 4, named" fails 4 'rank 1'
    launch 2 all_reduce --inject stop:1:init --timeout-init 5 -b 8 -e 8 -n 10
    verdict all_reduce "a rank stops before init: exit code 4, named" fails 4 'rank 1'
  else
    launch 2 shared all_reduce --inject corrupt:1:flipped -b 1K -e 1K -n 2
    verdict all_reduce "a flipped bit: exit code 7, named" fails 7 'rank 1 .*one bit flipped'
    launch 2 shared all_reduce --inject hang:1:3 -T 5 -b 8 -e 8 -n 10
    verdict all_reduce "a rank hangs in the loop: exit code 4, named" fails 4 'rank 1'
    launch 2 shared all_reduce --inject stop:1:init --timeout-init 5 -b 8 -e 8 -n 10
    verdict all_reduce "a rank stops before init: exit code 4, named" fails 4 'rank 1'
  fi
}

collectives() {
  [ "$pair" = 1 ] || every_collective 2 10 '' -b 8 -e 2M -f 4 -n 5 -w 1 -c 1
  every_collective 1 2 '' -b 8 -e 1M -f 131072 -n 2 -w 1 -c 1
  every_collective 4 1 shared -b 64K -e 64K -n 2 -w 1 -c 1
  # What one rank alone cannot do is waived by all, or they would fall out of step.
  NCCL_TESTS_SPLIT='DIV 3' launch 4 shared all_reduce -d all -o all -b 1K -e 1K -n 1 -w 0 -c 1
  verdict all_reduce "groups of three and one, all types and reductions" rows_right 40
}

groups=("$@")
[ $# != 0 ] || groups=(collectives types modes failures)
for group in "${groups[@]}"; do
  case $group in
    collectives | types | modes | failures) ;;
    *) echo "no group $group: collectives, types, modes, failures" >&2 && exit 1 ;;
  esac
done

begin=$SECONDS
nvidia-smi -L | tee -a "$log"
for group in "${groups[@]}"; do "$group"; done

printf '\n' && printf '%-28s %s\n' GPUs "$gpus" 'checks passed' "$passed" 'checks failed' "$failed" seconds "$((SECONDS - begin))"
printf 'FAILED %s\n' "${ended[@]}" | grep -v '^FAILED $'
[ "$failed" = 0 ]
