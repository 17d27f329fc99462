"""Room on the disk: `workhook doctor` and `/readyz` ask the same."""

from __future__ import annotations

import shutil
from pathlib import Path

FREE_BYTES_MIN = 100 * 1024**2


def folders(data: Path, sqlite_path: Path | None) -> list[Path]:
    """Return the folders that a process writes to: of uploads and files, and of the database if it is a file."""
    found = {data.absolute(): None}
    if sqlite_path is not None:
        found[sqlite_path.absolute().parent] = None
    return list(found)


def free_bytes(folder: Path) -> int:
    """Return what is free where the folder is, or where it will be created. Raises `OSError`."""
    return shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.is_dir())).free


def fault(data: Path, sqlite_path: Path | None) -> str | None:
    """Return which folder lacks room, or None if each has enough."""
    for folder in folders(data, sqlite_path):
        try:
            free = free_bytes(folder)
        except OSError as error:
            return f"{folder}: {error.strerror}"
        if free < FREE_BYTES_MIN:
            return f"{folder}: {free // 1024**2:,} MiB free, less than {FREE_BYTES_MIN // 1024**2:,}"
    return None
