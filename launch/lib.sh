# shellcheck shell=bash
# Shared by the launchers: flavour of MPI, results folder, a logged run, and the exit code of a job.
# Sourced, with `set -euo pipefail` in force.
#
# What is printed here is read together with the benchmark's table by tools that look for certain words
# (docs/FORMAT.md), so messages avoid them; host names stand after "host".

say() { printf 'launch: %s\n' "$*" >&2; }
# die EXIT-CODE MESSAGE: 1 usage, 6 set-up, as the binaries have it.
die() {
  local code=$1
  shift
  say "$@"
  exit "$code"
}

# The comment at a script's top is its help.
usage() {
  sed -n '2,/^[^#]/{/^#/p}' "$0" | sed 's/^# \{0,1\}//' >&2
  exit "$1"
}

check_binary() {
  [ -n "${1:-}" ] || usage 1
  command -v -- "$1" > /dev/null || die 6 "no program '$1'; build it: cargo build --release --locked"
}

# binary_mpi BINARY: openmpi, mpich (also Intel MPI, which has the same interface), or nothing for a program
# without MPI. Under the launcher of another MPI every rank would be a world of its own.
binary_mpi() {
  case $(ldd -- "$(command -v -- "$1")" 2> /dev/null) in
    *libmpi.so.40*) echo openmpi ;;
    *libmpich.so* | *libmpi.so.12*) echo mpich ;;
  esac
}

# launcher_flavour LAUNCHER: openmpi, hydra, intel, or nothing.
launcher_flavour() {
  case $("$1" --version 2> /dev/null) in
    *"Open MPI"* | *OpenRTE*) echo openmpi ;;
    *Intel*MPI*) echo intel ;;
    *HYDRA*) echo hydra ;;
  esac
}

# Variables that reach the ranks and the log; the rest of the environment may hold secrets.
passed_variables() {
  compgen -e | grep -E '^(NCCL_|UCX_|FI_|OMPI_MCA_|CRITRANK_|(CUDA_VISIBLE_DEVICES|LD_LIBRARY_PATH|PATH|RUST_LOG)$)' | sort
}

gpu_count() {
  local count
  count=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU ') || count=$(compgen -G '/dev/nvidia[0-9]*' | wc -l)
  echo "$count"
}

# open_results BINARY ARGS..: makes the folder; sets RESULTS, RECORD and RUN (binary and arguments, with the files'
# options where the caller has none).
open_results() {
  local base arg value record='' json='' stamp n=1
  base=$(basename "$1") stamp=$(date -u +%Y%m%dT%H%M%SZ)
  mkdir -p "${CRITRANK_RESULTS:-results}"
  RESULTS=${CRITRANK_RESULTS:-results}/$stamp-$base
  until mkdir "$RESULTS" 2> /dev/null; do
    [ $((n++)) -lt 100 ] || die 6 "cannot make $RESULTS"
    RESULTS=${CRITRANK_RESULTS:-results}/$stamp-$base-$n
  done
  RUN=("$@")
  while [ $# -gt 1 ]; do
    shift
    arg=$1 value=${2:-}
    case $arg in
      --record) record=$value ;;
      --record=*) record=${arg#*=} ;;
      -J | --json) json=$value ;;
      --json=*) json=${arg#*=} ;;
      -J?*) json=${arg#-J} ;;
    esac
  done
  [ -n "$record" ] || RUN+=(--record "$RESULTS/record.jsonl")
  [ -n "$json" ] || RUN+=(-J "$RESULTS/result.json")
  RECORD=${record:-$RESULTS/record.jsonl}
}

# run_logged COMMAND..: shows and keeps the output; returns the launcher's exit code. A signal to this script goes
# on to the launcher, which takes its ranks with it.
run_logged() {
  local name out err launcher code=0 tees
  {
    printf '%q ' "$@"
    echo
  } > "$RESULTS/command.txt"
  passed_variables | while read -r name; do printf '%s=%q\n' "$name" "${!name}"; done > "$RESULTS/env.txt"
  say "$(cat "$RESULTS/command.txt")"
  # The tees ignore an interrupt from the keyboard, so that the last lines are kept.
  exec {out}> >(trap '' INT; exec tee "$RESULTS/stdout.log") && tees=$!
  exec {err}> >(trap '' INT; exec tee "$RESULTS/stderr.log" >&2) && tees+=" $!"
  "$@" >&"$out" 2>&"$err" {out}>&- {err}>&- &
  launcher=$!
  exec {out}>&- {err}>&-
  trap 'kill -TERM $launcher 2> /dev/null || true' INT TERM HUP
  wait "$launcher" || code=$?
  # A trapped signal ends `wait` before the launcher ends.
  while kill -0 "$launcher" 2> /dev/null; do
    code=0
    wait "$launcher" || code=$?
  done
  trap - INT TERM HUP
  # Ranks that outlive their launcher hold the pipes open: not for ever.
  # shellcheck disable=SC2086 # two numbers
  for name in $(seq 50); do
    kill -0 $tees 2> /dev/null || break
    sleep 0.1
  done
  return "$code"
}

# field NAME: the value of "NAME": in JSON text of one line; text or number.
field() { sed -nE "s/.*\"$1\"[[:space:]]*:[[:space:]]*\"?([^\",}]*).*/\1/p" | head -n 1; }

# start_ranks: the ranks of the record's first event, one a line, each from its "rank": on.
start_ranks() {
  head -n 1 "$RECORD" | grep -E '"event"[[:space:]]*:[[:space:]]*"start"' | sed -E 's/"rank"[[:space:]]*:/\n&/g' | tail -n +2
}

# read_death LAUNCHER-CODE: who died, by the launcher's own words; sets DEAD_.. as far as they are said.
read_death() {
  local line logs=("$RESULTS/stderr.log" "$RESULTS/stdout.log")
  DEAD_RANK='' DEAD_PID='' DEAD_HOST='' DEAD_HOW='' DEAD_TOGETHER=''
  # Open MPI: ... process rank 2 with PID 0 on node node1 exited on signal 9 (Killed).
  line=$(cat "${logs[@]}" | tr '\n' ' ' | grep -aoE 'process rank [0-9]+ with PID [0-9]+ on node [^ ]+ +exited on +signal [0-9]+' | head -n 1) || true
  if [ -n "$line" ]; then
    read -r DEAD_RANK DEAD_PID DEAD_HOST DEAD_HOW < <(sed -E 's/process rank ([0-9]+) with PID ([0-9]+) on node ([^ ]+) .*(signal [0-9]+)/\1 \2 \3 \4/' <<< "$line")
    return 0
  fi
  # Hydra: =   PID 123 RUNNING AT node1 / =   EXIT CODE: 9 / =   KILLED BY SIGNAL: 9 (Killed), or EXIT STRING: Killed (signal 9)
  line=$(cat "${logs[@]}" | grep -aE -m 1 'PID [0-9]+ RUNNING AT ') || true
  if [ -n "$line" ]; then
    read -r DEAD_PID DEAD_HOST < <(sed -E 's/.*PID ([0-9]+) RUNNING AT ([^ ]+).*/\1 \2/' <<< "$line")
    # It ends a host's ranks together, by the same signal, and names any one of them.
    DEAD_TOGETHER=1
    DEAD_RANK=$(sed -nE 's/.*RANK ([0-9]+) PID.*/\1/p' <<< "$line") # Intel MPI says it
    DEAD_HOW=$(cat "${logs[@]}" | grep -aoE -m 1 'KILLED BY SIGNAL: [0-9]+|\(signal [0-9]+\)|EXIT CODE: (9|6|11|15|134|137|139|143)$' \
      | head -n 1 | sed -E 's/[^0-9]*([0-9]+).*/signal \1/') || true
    return 0
  fi
  # Slurm: srun: error: node1: task 1: Killed. It says so of the ranks that it kills after a bad exit as well; then
  # its own code is that exit's.
  [ "$1" -gt 128 ] || return 0
  line=$(cat "${logs[@]}" | grep -aE 'error: [^ ]+: tasks? [0-9,-]+: [A-Z]' | grep -avE -m 1 ': (Exited|Terminated)') || true
  if [ -n "$line" ]; then
    read -r DEAD_HOST DEAD_RANK DEAD_HOW < <(sed -E 's/.*error: ([^ ]+): tasks? ([0-9]+)[^:]*: (.*)/\1 \2 \3/' <<< "$line")
  fi
}

# name_death: one line that names rank, host and pid. Several ranks may share a process.
name_death() {
  local found='' ranks host pid others=''
  if [ -s "$RECORD" ]; then
    if [ -n "$DEAD_RANK" ]; then
      found=$(start_ranks | grep -E "^\"rank\"[[:space:]]*:[[:space:]]*${DEAD_RANK}([^0-9]|$)") || true
    else
      found=$(start_ranks | grep -E "\"pid\"[[:space:]]*:[[:space:]]*${DEAD_PID}([^0-9]|$)") || true
      # The same number may be in use at another host.
      if [ "$(wc -l <<< "$found")" -gt 1 ]; then found=$(grep -E "\"host\"[[:space:]]*:[[:space:]]*\"${DEAD_HOST%%.*}[\".]" <<< "$found") || true; fi
    fi
  fi
  ranks=$(while read -r line; do field rank <<< "$line"; done <<< "$found" | paste -sd,)
  host=$(field host <<< "$found") pid=$(field pid <<< "$found")
  if [ -n "$DEAD_TOGETHER" ] && [ -n "$host" ]; then
    others=$(start_ranks | grep -E "\"host\"[[:space:]]*:[[:space:]]*\"$host\"" | while read -r line; do field rank <<< "$line"; done | paste -sd,)
    if [ "$others" = "$ranks" ]; then others=''; else others="; Hydra ends the ranks of a host together, so the first may be any of $others"; fi
  fi
  say "rank ${ranks:-${DEAD_RANK:-unknown}} died: host ${host:-${DEAD_HOST:-unknown}}, pid ${pid:-${DEAD_PID:-unknown}}${DEAD_HOW:+, $DEAD_HOW}$others"
}

# job_code LAUNCHER-CODE: the exit code of the job. A launcher may put its own in front of the ranks', so the
# record's last event counts; where no rank lived to write one, the dead rank is named and the code is 8.
job_code() {
  local code=$1 last='' recorded='' aborted
  # An older file of that name says nothing about this run.
  [ "$RECORD" -nt "$RESULTS/command.txt" ] && last=$(tail -n 1 "$RECORD")
  if grep -qE '"event"[[:space:]]*:[[:space:]]*"(finish|ended|failed)"' <<< "$last"; then
    recorded=$(field exit_code <<< "$last")
  fi
  # A rank may still die after the last event; that is no success.
  if [ -n "$recorded" ] && { [ "$recorded" != 0 ] || [ "$code" = 0 ]; }; then return "$recorded"; fi
  # MPI_Abort says its code; PMI2 under Slurm then kills all ranks, as if they had died.
  aborted=$(cat "$RESULTS/stderr.log" "$RESULTS/stdout.log" |
    grep -aoE -m 1 'application called MPI_Abort\([^)]*, ?[0-9]+\)' | grep -oE '[0-9]+' | tail -n 1) || true
  if [[ $aborted =~ ^([1-9]|10)$ ]]; then return "$aborted"; fi
  read_death "$code"
  if [ -n "$DEAD_HOW" ]; then
    name_death
    return 8
  fi
  # After a start, 1 is no usage error: Open MPI ends so when it is told to terminate.
  if [ -n "$last" ] && [ -z "$recorded" ] && [ "$code" -le 1 ]; then
    say "the record ends without its last event"
    return 8
  fi
  [ "$code" -le 10 ] || {
    say "the launcher ended with $code and named no rank"
    code=8
  }
  return "$code"
}

# finish LAUNCHER-CODE: says where the files lie and ends the script.
finish() {
  local code=0
  job_code "$1" || code=$?
  say "exit code $code; results in $RESULTS"
  exit "$code"
}
