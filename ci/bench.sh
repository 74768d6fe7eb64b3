#!/usr/bin/env bash
# Measures critrank itself, and beside a peer where there is one. Builds no peer.
#
#   ci/bench.sh harness       what the loop adds to a bare MPI loop, under both MPIs (builds examples/harness)
#   ci/bench.sh nccl          our binaries, and nccl-tests' of the same names in PEER_DIR, in turn; needs GPUs
#   ci/bench.sh verify        how fast buffers are filled and checked, against a copy within the GPU
#   ci/bench.sh mpi           --backend mpi, and osu_allreduce and IMB-MPI1 where PEER_DIR has them, in turn
#   ci/bench.sh analyse DIR   the figures of a folder that nccl or mpi left
#
# BIN_DIR      our binaries (target/release)        OUT          folder for the raw output (results/bench-TIME)
# PEER_DIR     the peer's binaries                  COLLECTIVES  which (all eleven)
# PAIRS        pairs (5; mpi: launches, 20)         RANKS        ranks (2)
# MAX          largest size (1G; mpi: 1M)           CHECKS       -c of both (1)
# MPIRUN       the launcher (mpirun)                PEER_NAME    of the peer of nccl (peer)
# BIND         Open MPI's words for binding (--bind-to none); '--map-by slot:PE=8 --bind-to core' keeps a launch's
#              processes where they are, without which small sizes differ by 40 % from launch to launch
# ROTATE_MS    so often every process moves to another core (0: never), where cores differ by chance, as on a virtual
#              machine: a launch is then a mean over cores; needs python3 and more cores than ranks
# ARGS         further arguments of both, as words
#
# Ours and the peer's launches alternate as ABBA. Nothing is repeated or left out: every launch's wall time and exit
# code is printed, then every pair, and a table last. nccl and mpi need bash, awk and an MPI launcher.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
MPIRUN=${MPIRUN:-mpirun}
OUT=${OUT:-results/bench-$(date -u +%Y%m%dT%H%M%SZ)}
BIN_DIR=${BIN_DIR:-target/release}
RANKS=${RANKS:-2}
PEER_DIR=${PEER_DIR:-}
PEER_NAME=${PEER_NAME:-peer}
failed=0

die() {
  echo "$*" >&2
  exit 1
}

# start_line MPIRUN: the words before the binary.
start_line() {
  line=("$1" -np "$RANKS")
  if "$1" --version 2>&1 | grep -qiE 'open.?mpi|openrte|prte'; then
    # shellcheck disable=SC2206 # words
    line+=(${BIND:---bind-to none})
    [ "$RANKS" -le "$(nproc)" ] || line+=(--oversubscribe)
    [ "$(id -u)" != 0 ] || line+=(--allow-run-as-root)
  fi
}

harness() {
  local mpi
  for mpi in openmpi mpich; do
    echo "== $mpi"
    # Two target folders, because cargo relinks nothing when MPICC changes.
    MPICC=mpicc.$mpi CARGO_TARGET_DIR=target-$mpi \
      cargo build --quiet --release --locked --no-default-features --features mpi --example harness
    RANKS=2 start_line "mpirun.$mpi"
    "${line[@]}" "target-$mpi/release/examples/harness" "$@" || failed=1
  done
}

# launch COLLECTIVE PAIR WHO COMMAND..: one process tree, timed.
launch() {
  local file=$OUT/$1-$2-$3 begin=${EPOCHREALTIME/./} code=0
  "${line[@]}" "${@:4}" > "$file.txt" 2> "$file.err" < /dev/null || code=$?
  local wall=$((${EPOCHREALTIME/./} - begin))
  printf 'WALL %-14s pair %2d %-6s %8.3f s  exit code %d\n' "$1" "$2" "$3" "$((wall / 1000))e-3" "$code" |
    tee -a "$OUT/walls"
  [ "$code" = 0 ] || { failed=1 && tail -n 5 "$file.err"; }
}

# The command of a tool for a collective, or nothing where the tool is not there.
command_of() {
  local binary
  case $1 in
    ours) binary=$BIN_DIR/$2_perf ;;
    osu) binary=$PEER_DIR/osu_allreduce ;;
    imb) binary=$PEER_DIR/IMB-MPI1 ;;
    *) binary=$PEER_DIR/$2_perf ;;
  esac
  command=()
  { [ "$1" = ours ] || [ -n "$PEER_DIR" ]; } && [ -x "$binary" ] || return 0
  case $1 in
    osu) command=("$binary" -T mpi_float -m "8:$most_bytes" -i 200 -x 20) ;;
    imb) command=("$binary" Allreduce -npmin "$RANKS" -msglog "3:$most_log") ;;
    *)
      command=("$binary" "${own[@]}" -b 8 -e "$MAX" -f 2 -n "$iterations" -w 5 -c "$CHECKS")
      [ -z "${ARGS:-}" ] || read -ra extra <<< "$ARGS"
      command+=("${extra[@]}")
      ;;
  esac
}

# alternate TOOL..: every collective, PAIRS times, there and back.
alternate() {
  local collective pair tool order own extra=()
  mkdir -p "$OUT"
  start_line "$MPIRUN"
  if [ "${ROTATE_MS:-0}" != 0 ]; then
    python3 "$here/rotate.py" "$ROTATE_MS" _perf $$ > /dev/null &
    rotating=$!
    trap 'kill "$rotating" 2> /dev/null || true' EXIT
  fi
  echo "# ${line[*]}; raw output in $OUT; another core every ${ROTATE_MS:-0} ms (0: never)"
  for collective in $COLLECTIVES; do
    for ((pair = 1; pair <= PAIRS; pair++)); do
      order=("$@")
      if ((pair % 2 == 0)); then
        order=()
        for tool; do order=("$tool" "${order[@]}"); done
      fi
      for tool in "${order[@]}"; do
        own=()
        { [ "$tool" != ours ] || [ -z "${host:-}" ]; } || own=(--backend mpi)
        command_of "$tool" "$collective"
        if [ ${#command[@]} = 0 ]; then
          [ "$tool" != ours ] || die "no $BIN_DIR/${collective}_perf; set BIN_DIR"
          ((pair > 1)) || echo "# no $tool for $collective"
          continue
        fi
        ((pair > 1)) || echo "# $tool: ${command[*]}"
        launch "$collective" "$pair" "$tool" "${command[@]}"
      done
    done
  done
  if [ -n "${rotating:-}" ] && ! kill -0 "$rotating" 2> /dev/null; then
    echo "# rotate.py ended early: the processes were not moved" && failed=1
  fi
  analyse "$OUT" || failed=1
}

# walls FILE: mean wall time of each tool, and the ratio.
walls() {
  awk '{ n[$2, $5]++; sum[$2, $5] += $6; tool[$5]; if (!($2 in seen)) { seen[$2]; list[++all] = $2 } }
    END { for (c = 1; c <= all; c++) for (who in tool) if ((list[c], who) in n) {
      mean = sum[list[c], who] / n[list[c], who]
      line = sprintf("%-14s wall time of %-6s %8.3f s", list[c], who, mean)
      if (who != "ours" && (list[c], "ours") in n) {
        line = line sprintf(", ours / theirs %.3f", sum[list[c], "ours"] / n[list[c], "ours"] / mean)
      }
      print line } }' "$1"
}

analyse() {
  local files
  mapfile -t files < <(find "$1" -maxdepth 1 -name '*-*-*.txt' | sort -V)
  [ ${#files[@]} -gt 0 ] || die "$1 holds no output of nccl or mpi"
  [ ! -e "$1/walls" ] || walls "$1/walls"
  awk -v host="${host:-}" -f "$here/bench.awk" "${files[@]}"
}

case ${1:-} in
  harness) harness "${@:2}" ;;
  verify) "$BIN_DIR/examples/verify_rate" "${@:2}" || failed=1 ;;
  nccl)
    COLLECTIVES=${COLLECTIVES:-all_reduce all_gather reduce_scatter broadcast reduce sendrecv alltoall alltoallv gather scatter hypercube}
    PAIRS=${PAIRS:-5} MAX=${MAX:-1G} CHECKS=${CHECKS:-1} iterations=20
    if [ -n "$PEER_DIR" ]; then alternate ours "$PEER_NAME"; else alternate ours; fi
    ;;
  mpi)
    COLLECTIVES=all_reduce host=1 PAIRS=${PAIRS:-20} MAX=1M CHECKS=0 iterations=200
    most_bytes=1048576 most_log=20
    if [ -n "$PEER_DIR" ]; then alternate ours osu imb; else alternate ours; fi
    ;;
  analyse) analyse "${2:?a folder}" || failed=1 ;;
  *)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 1
    ;;
esac
exit "$failed"
