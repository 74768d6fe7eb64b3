"""Compiles the kernels with the NVRTC library of the wheel in this environment; see ptx.sh."""

import ctypes
import pathlib
import sys
import sysconfig

VERIFY = pathlib.Path("src/verify/kernels/verify.cu")
GATE = pathlib.Path("src/backend/nccl/kernels/gate.cu")
# By NVRTC's major version: the old one makes what old drivers take, the new one knows Blackwell.
TARGETS = {
    11: [
        (VERIFY, "verify.ptx", "compute_60", "PTX"),
        (VERIFY, "verify_sm80.cubin", "sm_80", "CUBIN"),
        (VERIFY, "verify_sm90.cubin", "sm_90", "CUBIN"),
        (GATE, "gate.ptx", "compute_60", "PTX"),
    ],
    12: [
        (VERIFY, "verify_sm100.cubin", "sm_100", "CUBIN"),
        (VERIFY, "verify_sm120.cubin", "sm_120", "CUBIN"),
    ],
}
# No fused multiply-add: every product is rounded by itself, as on the host.
OPTIONS = ["-default-device", "--fmad=false", "--std=c++17"]


def nvrtc():
    folder = pathlib.Path(sysconfig.get_paths()["purelib"], "nvidia", "cuda_nvrtc", "lib")
    return ctypes.CDLL(str(next(folder.glob("libnvrtc.so*"))))


def major(library):
    number, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(number), ctypes.byref(minor))
    return number.value


def result(library, program, what):
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw


def compiled(library, source, architecture, what):
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None)
    options = [option.encode() for option in [f"--gpu-architecture={architecture}", *OPTIONS]]
    code = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    log = result(library, program, "ProgramLog").rstrip(b"\0").decode()
    if log:
        print(log, file=sys.stderr)
    if code:
        sys.exit(f"{source} does not compile for {architecture}")
    # Text ends with a zero that is no part of it.
    return result(library, program, what).rstrip(b"\0") if what == "PTX" else result(library, program, what)


library = nvrtc()
for source, name, architecture, what in TARGETS[major(library)]:
    target = source.with_name(name)
    content = compiled(library, source, architecture, what)
    if sys.argv[1:] != ["--check"]:
        target.write_bytes(content)
    elif not target.exists() or target.read_bytes() != content:
        sys.exit(f"{target} does not come from {source}: run ci/ptx.sh")
