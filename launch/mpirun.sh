#!/usr/bin/env bash
# Runs a benchmark under mpirun and keeps all that it says.
#
#   launch/mpirun.sh [-n RANKS] [-N PER_NODE] [--hostfile FILE] BINARY [ARGS..]
#
# Works with Open MPI, MPICH (Hydra) and Intel MPI; takes the launcher that fits the binary. Without -n: as many
# ranks as the host file has slots, or one per local GPU. Output goes to results/<UTC>-<binary>/ as well. The exit
# code is the benchmark's own, also where the launcher hides it.
#
# CRITRANK_MPIRUN   the launcher to take                    CRITRANK_RESULTS  instead of results
# CRITRANK_RSH      a program to use in place of ssh
set -euo pipefail
# shellcheck source=launch/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

ranks='' per_node='' hostfile=''
while [ $# -gt 0 ]; do
  case $1 in
    -n | -np | -N | --hostfile) [ $# -ge 2 ] || die 1 "$1 takes a value" ;;
  esac
  case $1 in
    -n | -np) ranks=$2 && shift 2 ;;
    -N) per_node=$2 && shift 2 ;;
    --hostfile) hostfile=$2 && shift 2 ;;
    -h | --help) usage 0 ;;
    --) shift && break ;;
    -*) die 1 "no option '$1' before the binary (see --help)" ;;
    *) break ;;
  esac
done
check_binary "${1:-}"
[[ ${ranks:-1} =~ ^[1-9][0-9]*$ && ${per_node:-1} =~ ^[1-9][0-9]*$ ]] || die 1 "-n and -N take a whole number above 0"
[ -z "$hostfile" ] || [ -r "$hostfile" ] || die 6 "cannot read the host file '$hostfile'"

# pick_launcher: the first whose flavour fits the binary.
pick_launcher() {
  local want candidate flavour
  want=$(binary_mpi "$1")
  for candidate in ${CRITRANK_MPIRUN:-mpirun mpirun.openmpi mpiexec.hydra mpirun.mpich mpiexec}; do
    flavour=$(launcher_flavour "$candidate")
    case ${want:-any}:$flavour in
      *:) ;;
      any:* | openmpi:openmpi | mpich:hydra | mpich:intel)
        echo "$candidate $flavour"
        return 0
        ;;
    esac
  done
  die 6 "no mpirun of ${want:-any MPI}, with which the binary was built, was found; put it in PATH or set CRITRANK_MPIRUN"
}
picked=$(pick_launcher "$1")
read -r launcher flavour <<< "$picked"
mapfile -t passed < <(passed_variables)

if [ -z "$ranks$hostfile${SLURM_JOB_ID:-}${PBS_JOBID:-}${LSB_JOBID:-}" ]; then
  ranks=$(gpu_count)
  [ "$ranks" -gt 0 ] || ranks=1
fi
line=("$launcher")
case $flavour in
  openmpi)
    [ "$(id -u)" != 0 ] || line+=(--allow-run-as-root)
    map=slot
    [ -z "$per_node" ] || map=ppr:$per_node:node
    # Tests run more ranks than there are cores; a batch system or a host file knows better.
    if [ -z "$hostfile${SLURM_JOB_ID:-}" ] && [ "${ranks:-1}" -gt "$(nproc)" ]; then map+=:OVERSUBSCRIBE; fi
    line+=(--map-by "$map" --bind-to none)
    if [ -n "${CRITRANK_RSH:-}" ]; then
      case $("$launcher" --version) in
        *" 4."* | *" 3."*) line+=(--mca plm_rsh_agent "$CRITRANK_RSH") ;;
        *) line+=(--prtemca plm_ssh_agent "$CRITRANK_RSH") ;;
      esac
    fi
    [ -z "$hostfile" ] || line+=(--hostfile "$hostfile")
    # mpirun itself carries OMPI_MCA_*, and warns of a second mention.
    for name in "${passed[@]}"; do [[ $name == OMPI_MCA_* ]] || line+=(-x "$name"); done
    ;;
  hydra | intel)
    [ -z "${CRITRANK_RSH:-}" ] || line+=(-launcher rsh -launcher-exec "$CRITRANK_RSH")
    [ -z "$hostfile" ] || line+=(-f "$hostfile")
    [ -z "$per_node" ] || line+=(-ppn "$per_node")
    if [ "$flavour" = intel ]; then line+=(-genv I_MPI_PIN 0); else line+=(-bind-to none); fi
    line+=(-genvlist "$(IFS=, && echo "${passed[*]}")")
    ;;
esac
[ -z "$ranks" ] || line+=(-n "$ranks")

open_results "$@"
code=0
run_logged "${line[@]}" "${RUN[@]}" || code=$?
finish "$code"
