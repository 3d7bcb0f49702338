"""`python -m slimming`: makes an installation of the CUDA build of PyTorch small enough for a CPU image.

Removes what is only loaded on a GPU and what nobody runs in a container (headers, tests, Java), and puts stubs in the
place of the CUDA libraries that the loader insists on. With a CPU build of PyTorch only the second part applies. Run
in the RUN step that installs, so that no lower layer keeps the files.
"""

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from slimming import elf

GPU_ONLY = (
    "triton",
    "cuda",
    "nvidia/cudnn/lib/libcudnn_*.so.9",
    "nvidia/cu13/lib/libnvrtc.alt*",
    "nvidia/cu13/lib/libnvrtc-builtins*",
    "nvidia/cu13/lib/libcusolverMg*",
    "nvidia/cu13/lib/libnvperf*",
    "nvidia/cu13/lib/libnvblas*",
    "nvidia/cu13/lib/libcufftw*",
    "nvidia/cu13/lib/libpcsamplingutil*",
    "nvidia/cu13/lib/libcheckpoint*",
    "nvidia/cu13/lib/*.a",
    "nvidia/nvshmem/lib/*.a",
    "nvidia/nvshmem/lib/*.bc",
    "nvidia/nvshmem/lib/nvshmem_*",
    "nvidia/cu13/bin",
    "nvidia/cu13/nvvm",
    "torch/lib/libtorch_cuda_linalg.so",
)
UNUSED = (
    "nvidia/*/include",
    "torch/include",
    "torch/bin/protoc*",
    "torch/share",
    "ray/jars",
    "ray/cpp",
    "ray/rllib",
    "wandb",
    "pyarrow/include",
    "pyarrow/tests",
    "pyarrow/libarrow_flight*",
    "pyarrow/libarrow_python_flight*",
    "pyarrow/_flight*",
    "pandas/tests",
    "numpy/_core/tests",
)
STUBBED = (
    "nvidia/cu13/lib/libcublasLt.so.13",
    "nvidia/cu13/lib/libcublas.so.13",
    "nvidia/cu13/lib/libcufft.so.12",
    "nvidia/cu13/lib/libcusparse.so.12",
    "nvidia/cu13/lib/libcusolver.so.12",
    "nvidia/cu13/lib/libcurand.so.10",
    "nvidia/cu13/lib/libnvJitLink.so.13",
    "nvidia/cu13/lib/libnvrtc.so.13",
    "nvidia/cu13/lib/libcupti.so.13",
    "nvidia/cusparselt/lib/libcusparseLt.so.0",
    "nvidia/nccl/lib/libnccl.so.2",
    "nvidia/nvshmem/lib/libnvshmem_host.so.3",
)


def main() -> int:
    """Prints the size before and after; fails where torch is not found."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        print("torch is not installed")
        return 1
    packages = Path(spec.origin).parent.parent
    before = _megabytes(packages)
    for path in _matches(packages, GPU_ONLY + UNUSED):
        _remove(path)
    for path in _matches(packages, STUBBED):
        # Not in place: a package manager may have linked the file to its cache.
        content = elf.stub(elf.read(path))
        path.unlink()
        path.write_bytes(content)
    print(f"{packages}: {before} MB before, {_megabytes(packages)} MB now")
    return 0


def _matches(root: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(root.glob(pattern))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _megabytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink()) >> 20


if __name__ == "__main__":
    sys.exit(main())
