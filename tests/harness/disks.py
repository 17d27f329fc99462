"""File systems of a chosen size, to fill."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def disk_of(size_mb: int) -> Iterator[Path]:
    """Give the folder of a file system of so many MiB. The test is skipped without the right to mount one."""
    with tempfile.TemporaryDirectory(prefix="workhook-disk-") as folder:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", folder]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("a small disk cannot be mounted: NOT TESTED. Run as root.")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
