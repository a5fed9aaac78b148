# SPDX-License-Identifier: Apache-2.0
"""The Python environment of the peers."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

from launch import RunFailed

# In addition to torch, for two ranks. DeepSpeed compiles its optimizers at run time.
MORE = {"deepspeed": "deepspeed==0.19.8", "fairscale": "fairscale==0.4.13"}


def pip_install(python: Path, *packages: str) -> bool:
    return subprocess.run([python, "-m", "pip", "install", "--quiet", *packages]).returncode == 0


def environment_python(directory: Path, torch: str, more: bool) -> Path:
    """Returns the Python of a virtual environment with torch and, if `more`, the peers for two ranks as far as they can
    be installed. Makes the environment on first use."""
    python = directory / "bin" / "python"
    ready, more_ready = directory / f"torch-{torch}.ready", directory / "more.ready"
    if not ready.exists():
        print(f"# making {directory} with torch {torch}", flush=True)
        try:
            venv.create(directory, with_pip=True, clear=True)
        except subprocess.CalledProcessError as error:
            raise RunFailed(f"{directory}: no virtual environment: {error} (Debian: python3-venv)") from error
        if not pip_install(python, f"torch=={torch}", "numpy", "h5py"):
            raise RunFailed(f"torch {torch} could not be installed in {directory}")
        ready.touch()
    if more and not more_ready.exists():
        for package in MORE.values():  # with the version of torch again, so that nothing replaces it
            pip_install(python, f"torch=={torch}", package, "ninja", "setuptools")
        more_ready.touch()
    return python


def needs(python: Path, *modules: str) -> None:
    """Checks for the modules without which nothing can be compared."""
    if not os.access(python, os.X_OK):
        raise RunFailed(f"{python}: no such program")
    if missing := [module for module in modules if not importable(python, module)]:
        raise RunFailed(f"{python} has no {', '.join(missing)}: nothing to compare with")


def importable(python: Path, module: str) -> bool:
    probe = subprocess.run([python, "-c", f"import {module}"], env={**os.environ, "DS_ACCELERATOR": "cpu"},
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    return probe.returncode == 0


def mkl_shim(directory: Path) -> Path:
    """MKL asks a function of its own whether the processor is Intel's. A preloaded one answers yes (README.md)."""
    library = directory / "libmklintel.so"
    if not library.exists():
        source = b"int mkl_serv_intel_cpu_true(void) { return 1; }\n"
        compile_ = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        if subprocess.run(compile_, input=source).returncode != 0:
            raise RunFailed(f"{library}: not compiled: torch would run at half its speed on AMD's processors")
    return library


def peer_environment(python: Path, shim: Path) -> dict[str, str]:
    """One thread, MKL's AVX-512 kernels, and the programs of the virtual environment (ninja) first in PATH."""
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "LD_PRELOAD": str(shim), "PATH": path}
