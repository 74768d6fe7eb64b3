#!/bin/sh
# Compiles verify.cu to PTX and cubin and gate.cu to PTX with NVRTC from PyPI; needs python3, no GPU and no CUDA toolkit.
#   ci/ptx.sh          writes what lies beside the sources (ptx.py says what)
#   ci/ptx.sh --check  fails if one of them does not come from the source
set -eu
cd "$(dirname "$0")/.."
for wheel in nvidia-cuda-nvrtc-cu11==11.8.89 nvidia-cuda-nvrtc-cu12==12.8.93; do
    venv=target/nvrtc-${wheel#*==}
    if [ ! -e "$venv/ready" ]; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"
        touch "$venv/ready"
    fi
    "$venv/bin/python" ci/ptx.py "$@"
done
