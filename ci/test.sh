#!/usr/bin/env bash
# All tests: installs what is missing and runs every stage, or only those named: ci/test.sh fmt clippy pure
#
#   shell fmt clippy typos deny ptx   static checks
#   pure                              everything that needs no MPI and no GPU
#   openmpi mpich                     several ranks, on one host
#   cluster                           several hosts (ci/cluster.sh) and Slurm, with both MPIs; needs root
#
# A failed stage does not keep the later ones from running. Nothing may be skipped. The last line is "N passed,
# N failed" over all tests; a stage that fails without a failing test counts as one.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=ci/install.sh
. ci/install.sh

ALL=(shell fmt clippy typos deny ptx pure openmpi mpich cluster)
[ $# -gt 0 ] || set -- "${ALL[@]}"
for stage; do
  [[ " ${ALL[*]} " == *" $stage "* ]] || { echo "no stage '$stage'; there are: ${ALL[*]}" >&2 && exit 1; }
done
need_rust
install_packages "${TEST_PACKAGES[@]}"
install_tools

export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 closing='' ended=()

# with_mpi MPI CARGO-ARGS..: one target folder per MPI, because cargo relinks nothing when MPICC changes.
with_mpi() {
  local mpi=$1
  shift
  MPICC=mpicc.$mpi CARGO_TARGET_DIR=target-$mpi CRITRANK_MPI=$mpi cargo "$@"
}

# count RUNNER..: runs it, adds up its closing line, and fails if it skipped a test.
count() {
  local code=0 line ok=0 bad=0 skipped=0
  "$@" 2>&1 | tee "$log" || code=$?
  line=$(grep -E '^ *Summary \[|^test result: ' "$log" | tail -n 1) || true
  number() { grep -oE "[0-9]+ $1" <<< "$line" | cut -d' ' -f1 || true; }
  ok=$(number passed) bad=$(number failed) skipped=$(number '(skipped|ignored)')
  closing=${line:-$closing}
  passed=$((passed + ${ok:-0})) failed=$((failed + ${bad:-0}))
  [ "$code" = 0 ] || { [ "${bad:-0}" -gt 0 ] || failed=$((failed + 1)); return "$code"; }
  if [ "${skipped:-0}" != 0 ]; then
    echo "$skipped tests were skipped" >&2
    failed=$((failed + 1))
    return 1
  fi
}

# check COMMAND..: a stage of one verdict.
check() { "$@" || { failed=$((failed + 1)) && return 1; }; }

stage_shell() {
  local scripts
  mapfile -t scripts < <(git ls-files -co --exclude-standard -- '*.sh' '*.sbatch' .ci/run)
  check shellcheck -x "${scripts[@]}"
}
stage_fmt() { check cargo fmt --check; }
stage_clippy() {
  check cargo clippy --quiet --locked --all-targets --no-default-features -- -D warnings
  check with_mpi openmpi clippy --quiet --locked --all-targets --all-features -- -D warnings
}
stage_typos() { check typos; }
stage_deny() { check cargo deny --log-level warn --all-features check bans licenses sources; }
stage_ptx() {
  [ -x ci/ptx.sh ] || { echo "no ci/ptx.sh: no kernels to check" && return 0; }
  check ci/ptx.sh --check
}
stage_pure() {
  count cargo nextest run --locked --no-default-features --features nccl
  count cargo test --quiet --locked --no-default-features --doc
}
# Alone in its call, so that the tests which nextest filters out are not among those that it calls skipped.
ranks() {
  local before=$passed
  count with_mpi "$1" nextest run --locked --test "$2"
  echo "$2 with $1: $((passed - before)) tests passed"
}
# The harness is measured as it is shipped: optimised.
several() {
  check with_mpi "$1" build --quiet --release --locked --no-default-features --features mpi --example harness
  ranks "$1" multirank
  ranks "$1" groups
  ranks "$1" harness
}
stage_openmpi() { several openmpi; }
stage_mpich() { several mpich; }
stage_cluster() {
  check ci/cluster.sh up 4
  check ci/cluster.sh slurm
  ranks openmpi cluster
  ranks mpich cluster
}

for stage; do
  echo "== $stage"
  start=$SECONDS
  # Not in a condition, where bash would ignore `set -e` inside the stage; its counters come back by a file.
  set +e
  (
    set -e
    trap 'printf "%s\n" "$passed" "$failed" "$closing" > "$log.counts"' EXIT
    "stage_$stage"
  )
  code=$?
  set -e
  { read -r passed && read -r failed && read -r closing; } < "$log.counts" || true
  rm -f "$log.counts"
  ended+=("$stage $([ $code = 0 ] && echo ok || echo "exit code $code") $((SECONDS - start)) s")
done
[[ " $* " != *" cluster "* ]] || ci/cluster.sh down || true

printf '\n'
printf '%s\n' "${ended[@]}" "$closing" "$passed passed, $failed failed"
[ "$failed" = 0 ] && [[ "${ended[*]}" != *"exit code"* ]]
