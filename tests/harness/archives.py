"""Unpacking of archives created by the project."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack_tar(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive with the filter that later versions of Python use. Python before 3.11.4 has no filters."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    archive.extractall(folder)
