"""File systems of a chosen size, to be filled by tests."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def disk_of(size_mb: int) -> Iterator[Path]:
    """Mount a file system of `size_mb` MiB and yield its folder. Skips the test without the permission to mount it."""
    with tempfile.TemporaryDirectory(prefix="workhook-disk-") as folder:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", folder]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("a small disk cannot be mounted: NOT TESTED. Run as root.")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
