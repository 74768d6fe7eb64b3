"""Compiles verify.cu with the NVRTC library of the wheel in this environment; see ptx.sh."""

import ctypes
import pathlib
import sys
import sysconfig

SOURCE = pathlib.Path("src/verify/kernels/verify.cu")
TARGET = SOURCE.with_suffix(".ptx")
# No fused multiply-add: every product is rounded by itself, as on the host.
OPTIONS = [b"--gpu-architecture=compute_60", b"-default-device", b"--fmad=false", b"--std=c++17"]


def nvrtc():
    folder = pathlib.Path(sysconfig.get_paths()["purelib"], "nvidia", "cuda_nvrtc", "lib")
    return ctypes.CDLL(str(next(folder.glob("libnvrtc.so*"))))


def text(library, program, what):
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.value.decode()


def compile_ptx():
    library = nvrtc()
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), SOURCE.read_bytes(), b"verify.cu", 0, None, None)
    options = (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)
    code = library.nvrtcCompileProgram(program, len(OPTIONS), options)
    log = text(library, program, "ProgramLog")
    if log:
        print(log, file=sys.stderr)
    if code:
        sys.exit(f"{SOURCE} does not compile")
    return text(library, program, "PTX")


ptx = compile_ptx()
if sys.argv[1:] == ["--check"]:
    if TARGET.read_text() != ptx:
        sys.exit(f"{TARGET} does not come from {SOURCE}: run ci/ptx.sh")
else:
    TARGET.write_text(ptx)
