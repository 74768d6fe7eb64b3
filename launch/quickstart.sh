#!/usr/bin/env bash
# From a fresh Debian or Ubuntu with Rust to the first table: installs what is missing, builds, and runs the
# all-reduce over all local GPUs, or without a GPU over the MPI library on host memory.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=ci/install.sh
. ci/install.sh
# shellcheck source=launch/lib.sh
. launch/lib.sh

need_rust || exit 6
packages=()
command -v cc > /dev/null || packages+=(build-essential)
command -v pkg-config > /dev/null || packages+=(pkg-config)
# The bindings to MPI are made with libclang, wherever it came from.
if [ -z "${LIBCLANG_PATH:-}" ] && ! compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' > /dev/null &&
  ! ldconfig -p | grep -q libclang; then packages+=(libclang-dev); fi
# A cluster's own MPI comes first.
if ! command -v mpicc > /dev/null || ! command -v mpirun > /dev/null; then packages+=("${MPI_PACKAGES[@]}"); fi
install_packages "${packages[@]}" || exit 6

say "building (the first time takes minutes)"
cargo build --quiet --release --locked

gpus=$(gpu_count)
if [ "$gpus" = 0 ]; then
  say "no GPU here: four ranks of the MPI library on host memory, which says nothing about NCCL"
  exec launch/mpirun.sh -n 4 target/release/all_reduce_perf --backend mpi -b 8 -e 4M -f 2 -c 1
fi
# As the loader looks: its cache, then the path; pip's wheel lies in neither.
if ! ldconfig -p | grep -q 'libnccl\.so' && ! compgen -G "${LD_LIBRARY_PATH:-/nonexistent}/libnccl.so*" > /dev/null; then
  IFS=: read -ra folders <<< "${LD_LIBRARY_PATH:-}"
  found=''
  for folder in "${folders[@]}"; do compgen -G "$folder/libnccl.so*" > /dev/null && found=1; done
  [ -n "$found" ] || die 6 "$gpus GPUs, but no libnccl.so.2: install libnccl2 from NVIDIA's repository," \
    "or pip install nvidia-nccl-cu12 and put its nvidia/nccl/lib into LD_LIBRARY_PATH"
fi
say "$gpus GPUs, one rank each"
exec launch/mpirun.sh -n "$gpus" target/release/all_reduce_perf -b 8 -e 8G -f 2 -c 1
