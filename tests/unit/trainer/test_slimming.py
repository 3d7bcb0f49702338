import ctypes
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from slimming import elf

MATHS = Path("/lib/x86_64-linux-gnu/libm.so.6")
needs_library = pytest.mark.skipif(
    platform.machine() != "x86_64" or not MATHS.exists(), reason="needs glibc's libm at Debian's place"
)


@needs_library
def test_a_stub_exports_what_the_library_does(tmp_path: Path) -> None:
    library = elf.read(MATHS)
    assert library.soname == b"libm.so.6"
    path = tmp_path / "libstub.so"
    path.write_bytes(elf.stub(library))
    assert path.stat().st_size < MATHS.stat().st_size
    loaded = ctypes.CDLL(str(path))
    for name in ("cos", "signgam"):
        assert hasattr(loaded, name)
    assert not hasattr(loaded, "no_such_function")
    assert len({export.version for export in library.exports}) > 1


@needs_library
def test_calling_a_stub_ends_the_process(tmp_path: Path) -> None:
    path = tmp_path / "libstub.so"
    path.write_bytes(elf.stub(elf.read(MATHS)))
    code = f"import ctypes; ctypes.CDLL({str(path)!r}).cos()"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode < 0


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("#!/bin/sh\n")
    with pytest.raises(ValueError, match="ELF"):
        elf.read(path)
