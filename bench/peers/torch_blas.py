# SPDX-License-Identifier: Apache-2.0
"""torch_blas.py - PyTorch with the OpenBLAS that multiplies on several threads: the benches' peer.

    import torch_blas                     # before torch
    torch_blas.prepare()                  # may start this program again, with another environment
    import torch
    torch_blas.set_threads(torch, 2, 1)   # 2 threads of PyTorch, 1 of OpenBLAS

Debian's PyTorch multiplies with the library behind libblas.so.3, which may be the serial OpenBLAS.
prepare() puts the folder openblas-pthread first in LD_LIBRARY_PATH, and set_threads() looks at the
library that is really mapped. Any other library is an error. Variables OPENBLAS_* and OMP_* of the
caller (a core type, for example) are removed."""
import ctypes
import os
import sys
import sysconfig

FOLDER = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}/openblas-pthread"
COUNTS = sorted({1, 2, len(os.sched_getaffinity(0))})
THREADS = [(t, b) for b in COUNTS for t in COUNTS]  # of PyTorch, of OpenBLAS: all that are tried


def prepare():
    path = os.environ.get("LD_LIBRARY_PATH", "")
    if path.split(":")[0] == FOLDER:
        return
    if not os.path.exists(f"{FOLDER}/libblas.so.3"):
        sys.exit(f"bench: no {FOLDER}/libblas.so.3 (Debian: libopenblas0-pthread)")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "OMP_"))}
    env.update(LD_LIBRARY_PATH=f"{FOLDER}:{path}".rstrip(":"), OPENBLAS_NUM_THREADS="1")
    os.execve(sys.executable, [sys.executable, *sys.argv], env)


def library():
    """The mapped OpenBLAS, which must be the one of FOLDER and the only one."""
    with open("/proc/self/maps") as f:
        mapped = {text.split()[-1] for text in f if "libopenblas" in text or "libblas" in text}
    if any(os.path.dirname(path) != FOLDER for path in mapped):
        sys.exit(f"bench: PyTorch uses {', '.join(sorted(mapped))}, not the OpenBLAS of {FOLDER}")
    blas = [path for path in mapped if "libopenblas" in path]
    if len(blas) != 1:
        sys.exit(f"bench: PyTorch has {len(blas)} OpenBLAS libraries mapped, not one")
    handle = ctypes.CDLL(blas[0])
    if handle.openblas_get_parallel() != 1:
        sys.exit(f"bench: {blas[0]} is not the library with threads of its own")
    return handle


def set_threads(torch, n_torch, n_blas):
    torch.set_num_threads(n_torch)
    blas = library()
    blas.openblas_set_num_threads(n_blas)
    got = torch.get_num_threads(), blas.openblas_get_num_threads()
    if got != (n_torch, n_blas):
        sys.exit(f"bench: PyTorch and OpenBLAS have {got[0]} and {got[1]} threads, "
                 f"not {n_torch} and {n_blas}")
