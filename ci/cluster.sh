#!/usr/bin/env bash
# A virtual cluster on one machine, for tests: every node has a network, a host name, /etc/hosts and /dev/shm of
# its own, and all nodes hang off one bridge: Open MPI between them is real TCP (MPICH: see below), Slurm is real.
# The file system (also /tmp), process ids and cores are shared.
#
#   ci/cluster.sh up [N]              bring up node0 .. node(N-1), 4 by default; again: nothing to do
#   ci/cluster.sh exec NODE CMD..     run a command there (one argument: a shell line), environment and PWD kept
#   ci/cluster.sh rsh NODE CMD..      as ssh would: joined to a shell line, in a login's bare environment
#   ci/cluster.sh mpirun ARGS..       mpirun from node0 over all nodes; MPI=openmpi (default) or MPI=mpich
#   ci/cluster.sh slurm               start munge, slurmctld and a slurmd per node
#   ci/cluster.sh srun|sbatch ARGS..  from node0; srun takes PMIx or PMI2 after MPI
#   ci/cluster.sh shape NODE RATE     limit what a node sends, e.g. 200mbit; 'none' lifts it
#   ci/cluster.sh down                end every process of the nodes and remove all; safe at any time
#
# A command on a node finds CRITRANK_HOSTFILE and CRITRANK_RSH set, as launch/mpirun.sh wants them.
#
# CRITRANK_CLUSTER_STATE  where the state lies (/var/lib/critrank-cluster); two states are two clusters
# CRITRANK_CLUSTER_SLOTS  slots of a node in the host files, CPUs of a node in Slurm (2)
set -euo pipefail

STATE=$(readlink -m "${CRITRANK_CLUSTER_STATE:-/var/lib/critrank-cluster}")
SLOTS=${CRITRANK_CLUSTER_SLOTS:-2}
SELF=$(readlink -f "$0")
SUBNET=10.78.0

die() {
  printf 'cluster: %s\n' "$*" >&2
  exit 6
}

# need COMMAND=PACKAGE..: names every missing package at once.
need() {
  local pair missing=()
  [ "$(id -u)" = 0 ] || die "namespaces need root"
  for pair; do command -v "${pair%%=*}" > /dev/null || missing+=("${pair#*=}"); done
  [ ${#missing[@]} = 0 ] || die "missing packages; run: apt-get install -y ${missing[*]}"
}

# Holders are sleeping processes that keep the namespaces alive. Their argv[0] says whose they are, so they are
# found without pid files, which a crash leaves stale: prints "NAME PID" each, the switch's included.
holders() {
  local file name
  for file in /proc/[0-9]*/cmdline; do
    { IFS= read -r -d '' name < "$file"; } 2> /dev/null || continue
    case $name in "critrank-cluster:$STATE:"*) printf '%s %s\n' "${name##*:}" "$(basename "${file%/cmdline}")" ;; esac
  done
}
holder() { holders | sed -n "s/^$1 //p" | grep . || die "no node '$1' is up"; }
nodes() { holders | sed -nE 's/^(node[0-9]+) .*/\1/p' | sort -V; }

# wait_for SECONDS WHAT CMD..
wait_for() {
  local tries=$(($1 * 20)) what=$2
  shift 2
  until ("$@") > /dev/null 2>&1; do
    [ $((tries--)) -gt 0 ] || die "gave up waiting for $what"
    sleep 0.05
  done
}

# hold NAME NAMESPACE.. -- SHELL-LINE: the line runs inside, before the holder shows itself by its name.
hold() {
  local name=$1 spaces=()
  shift
  while [ "$1" != -- ]; do spaces+=("$1"); shift; done
  setsid unshare "${spaces[@]}" bash -c "$2; exec -a 'critrank-cluster:$STATE:$name' sleep infinity" \
    < /dev/null > "$STATE/$name.log" 2>&1 9>&- &
  wait_for 10 "$name (see $STATE/$name.log)" holder "$name"
}

up() {
  local n=${1:-4} i ip pid switch
  [[ $n =~ ^[1-9][0-9]?$ ]] || die "up takes a number of nodes from 1 to 99, not '$n'"
  need ip=iproute2 nsenter=util-linux
  if [ -f "$STATE/up" ] && [ "$(cat "$STATE/up")" = "$n" ] && [ "$(nodes | wc -l)" = "$n" ]; then return 0; fi
  down # whatever is left of another size or of an `up` that broke off
  mkdir -p "$STATE"
  touch "$STATE/.critrank-cluster"
  printf '#!/bin/sh\nCRITRANK_CLUSTER_STATE=%q exec %q rsh "$@"\n' "$STATE" "$SELF" > "$STATE/rsh"
  chmod +x "$STATE/rsh"
  echo "127.0.0.1 localhost" > "$STATE/hosts"
  for ((i = 0; i < n; i++)); do
    echo "$SUBNET.$((10 + i)) node$i" >> "$STATE/hosts"
    echo "node$i slots=$SLOTS" >> "$STATE/hostfile.openmpi"
    echo "node$i:$SLOTS" >> "$STATE/hostfile.mpich"
  done
  # The bridge lies in a namespace too: nothing of the cluster is seen in, or left behind in, the machine's network.
  hold switch --net -- "ip link add br0 type bridge && ip link set br0 up"
  switch=$(holder switch)
  for ((i = 0; i < n; i++)); do
    mkdir -p "$STATE/node$i"/{tmp,spool}
    chmod 1777 "$STATE/node$i/tmp"
    hold "node$i" --net --uts --mount --propagation private -- \
      "hostname node$i && mount --bind '$STATE/hosts' /etc/hosts && mount -t tmpfs -o size=1g shm /dev/shm"
    pid=$(holder "node$i") ip=$SUBNET.$((10 + i))
    nsenter -t "$switch" -n ip link add "port$i" type veth peer name eth0 netns "$pid"
    nsenter -t "$switch" -n ip link set "port$i" master br0 up
    nsenter -t "$pid" -n sh -c "ip link set lo up && ip addr add $ip/24 dev eth0 && ip link set eth0 up"
  done
  echo "$n" > "$STATE/up"
}

# The MPI that is meant; the tests' own variable does as well.
mpi=${MPI:-${CRITRANK_MPI:-openmpi}}
[[ $mpi == openmpi || $mpi == mpich ]] || die "MPI is openmpi or mpich, not '$mpi'"

# What an administrator would have set on these nodes. Open MPI's shared memory joins the ranks of one host name only.
# Debian's MPICH is left to UCX's choice, which takes the one kernel for one host and uses its shared memory: over
# UCX's TCP, MPI_Finalize of that version hangs in one run of three when the cores are busy. Slurm's PMIx fence is a
# ring: with the tree, one step in twenty let a rank send before its peer had left MPI_Init, which crashed the peer.
site() {
  printf '%s\n' CRITRANK_CLUSTER_NODE="$STATE:$1" SLURM_CONF="$STATE/slurm.conf" SLURM_PMIX_FENCE=ring CRITRANK_RSH="$STATE/rsh" \
    CRITRANK_HOSTFILE="$STATE/hostfile.$mpi" OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml=ob1 \
    OMPI_MCA_btl=tcp,vader,self OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0 \
    OMPI_MCA_orte_keep_fqdn_hostnames=1
}
# become.. replaces this shell, so that a signal to `cluster.sh exec` reaches the command itself.
become_inside() {
  local node=$1 pid
  shift
  pid=$(holder "$node")
  exec nsenter -t "$pid" --net --uts --mount -- "$@" 9>&-
}
become_on_node() {
  local node=$1 vars
  shift
  [ $# != 1 ] || set -- sh -c "$1"
  mapfile -t vars < <(site "$node")
  # Entering a mount namespace changes to its root folder.
  # shellcheck disable=SC2016 # expands on the node
  become_inside "$node" env "${vars[@]}" sh -c 'cd "$1" 2> /dev/null || cd /; shift; exec "$@"' sh "$PWD" "$@"
}
become_login() {
  local node=$1
  shift
  become_inside "$node" env -i CRITRANK_CLUSTER_NODE="$STATE:$node" HOME="${HOME:-/root}" USER=root LOGNAME=root \
    SHELL=/bin/sh PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "cd; $*"
}
on_node() (become_on_node "$@")

mpirun() {
  case $mpi in
    openmpi)
      need mpirun.openmpi=openmpi-bin
      become_on_node node0 mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent "$STATE/rsh" -x PATH \
        ${LD_LIBRARY_PATH+-x LD_LIBRARY_PATH} --hostfile "$STATE/hostfile.openmpi" --bind-to none "$@"
      ;;
    mpich)
      need mpiexec.hydra=mpich
      become_on_node node0 mpiexec.hydra -launcher rsh -launcher-exec "$STATE/rsh" -f "$STATE/hostfile.mpich" "$@"
      ;;
  esac
}

idle_nodes() { [ "$(on_node node0 sinfo -h -t idle -o %D)" = "$1" ]; }
slurm() {
  local count node
  need slurmctld=slurmctld slurmd=slurmd srun=slurm-client munged=munge mungekey=munge
  count=$(nodes | wc -l)
  [ "$count" -gt 0 ] || die "no node is up"
  if [ -f "$STATE/slurm.conf" ] && idle_nodes "$count" 2> /dev/null; then return 0; fi
  mkdir -p "$STATE"/{munge,ctld}
  # A munge of the cluster's own: the machine's, if it has one, stays as it is.
  [ -f "$STATE/munge/key" ] || mungekey -c -k "$STATE/munge/key"
  on_node node0 munged --key-file="$STATE/munge/key" --socket="$STATE/munge/socket" --force \
    --pid-file="$STATE/munge/pid" --log-file="$STATE/munge/log" --seed-file="$STATE/munge/seed"
  cat > "$STATE/slurm.conf" << CONF
ClusterName=critrank
SlurmctldHost=node0($SUBNET.10)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$STATE/munge/socket
CredType=cred/munge
StateSaveLocation=$STATE/ctld
SlurmdSpoolDir=$STATE/%n/spool
# PMIx keeps folders here; in a shared /tmp those of two nodes collide.
TmpFS=$STATE/%n/tmp
SlurmdPidFile=$STATE/%n/slurmd.pid
SlurmctldPidFile=$STATE/slurmctld.pid
SlurmdLogFile=$STATE/%n/slurmd.log
SlurmctldLogFile=$STATE/slurmctld.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiParams=ports=12000-12999
ReturnToService=2
GresTypes=gpu
NodeName=node[0-$((count - 1))] CPUs=$SLOTS RealMemory=1000 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  # slurmd looks for the first version's freezer even where nothing uses it.
  printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' > "$STATE/cgroup.conf"
  on_node node0 slurmctld -f "$STATE/slurm.conf"
  for node in $(nodes); do
    on_node "$node" "mountpoint -q /sys/fs/cgroup/freezer || { mount -t tmpfs cgroup /sys/fs/cgroup &&
      mkdir /sys/fs/cgroup/freezer && mount -t cgroup -o freezer cgroup /sys/fs/cgroup/freezer; }"
    on_node "$node" slurmd -f "$STATE/slurm.conf" -N "$node"
  done
  wait_for 30 "idle Slurm nodes (see $STATE/*/slurmd.log)" idle_nodes "$count"
}

slurm_client() {
  [ -f "$STATE/slurm.conf" ] || die "Slurm is not up; run: $0 slurm"
  become_on_node node0 "$@"
}
srun() {
  case $mpi in
    openmpi) slurm_client srun --mpi=pmix "$@" ;;
    mpich) slurm_client srun --mpi=pmi2 "$@" ;;
  esac
}

shape() {
  need tc=iproute2
  on_node "$1" "tc qdisc del dev eth0 root 2> /dev/null || true"
  [ "$2" = none ] || on_node "$1" tc qdisc add dev eth0 root tbf rate "$2" burst 256kb latency 50ms
}

# Every process of the nodes, ranks and daemons of Slurm too: those in a holder's network, and those that bear a
# node's mark although its holder died.
members() {
  local pid net own
  own=$(readlink /proc/self/ns/net)
  {
    holders | while read -r _ pid; do
      net=$(readlink "/proc/$pid/ns/net") || continue
      # Some process always ends during the search, of which find complains.
      find /proc/[0-9]*/ns/net -maxdepth 0 -lname "${net//[\[\]]/?}" 2> /dev/null | cut -d/ -f3 || true
    done
    grep -lsaF "CRITRANK_CLUSTER_NODE=$STATE:" /proc/[0-9]*/environ | cut -d/ -f3 || true
  } | sort -u | while read -r pid; do
    net=$(readlink "/proc/$pid/ns/net") || continue
    [ "$net" = "$own" ] || echo "$pid"
  done
}
none_left() { [ -z "$(members)" ]; }
down() {
  need nsenter=util-linux
  if [ -e "$STATE" ] && ! [ -f "$STATE/.critrank-cluster" ] && [ -n "$(ls -A "$STATE")" ]; then
    die "$STATE exists and is not a cluster's state"
  fi
  local pids
  mapfile -t pids < <(members)
  [ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2> /dev/null || true
  wait_for 10 "the nodes to end" none_left
  rm -rf "$STATE"
}

# One change at a time: tests and people may ask at once.
locked() {
  need flock=util-linux
  mkdir -p "$(dirname "$STATE")"
  exec 9> "$STATE.lock"
  flock -w 120 9 || die "another command holds $STATE.lock"
  "$@"
}

verb=${1:-help}
[ $# = 0 ] || shift
case $verb in
  up | down | slurm) locked "$verb" "$@" ;;
  exec | rsh)
    [ $# -ge 2 ] || die "$verb NODE CMD.."
    need nsenter=util-linux
    if [ "$verb" = exec ]; then become_on_node "$@"; else become_login "$@"; fi
    ;;
  mpirun) mpirun "$@" ;;
  srun) need srun=slurm-client && srun "$@" ;;
  sbatch) need sbatch=slurm-client && slurm_client sbatch "$@" ;;
  shape)
    [ $# = 2 ] || die "shape NODE RATE"
    shape "$@"
    ;;
  *)
    sed -n '2,/^set /{/^#/p}' "$SELF" | sed 's/^# \{0,1\}//' >&2
    exit 1
    ;;
esac
