"""Unpacks archives of our own making."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack_tar(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive as later versions of Python do it. Before 3.11.4 there are no filters."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    archive.extractall(folder)
