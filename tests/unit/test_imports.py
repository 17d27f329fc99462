"""What is loaded: the start of every command waits for it, and an idle server keeps it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workhook.storage.metadata import metadata

PROGRAM = """
import atexit, sys
from workhook.cli import main

atexit.register(lambda: print("loaded:", *sorted({name.partition(".")[0] for name in sys.modules} | {*sys.modules})))
main()
"""
SERVING = {"aiohttp", "httptools", "uvicorn", "uvloop"}
STORING = {"cryptography", "sqlalchemy", "structlog", "prometheus_client"}
# Of a server too only who uses them needs them: PostgreSQL, a migration, files on S3, people who sign in, invoices.
SELDOM = {"alembic", "argon2", "asyncpg", "boto3", "jinja2", "joserfc", "obstore", "pydantic", "segno", "typst", "xml"}
SELDOM |= {"sqlalchemy.dialects.postgresql"}


def run(data: Path, *words: str, until: str | None = None) -> tuple[list[str], set[str]]:
    """What the command says and what it has loaded in the end; with `until` it is told to stop at that line."""
    command = [sys.executable, "-c", PROGRAM, *words]
    environment = {"WORKHOOK_DATA": str(data)}
    said = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if until is not None and line.startswith(until):
                process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    assert said[-1].startswith("loaded: ")
    return said, set(said[-1].split())


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["token", "list", "--help"]], ids=" ".join)
def test_help_loads_neither_a_database_nor_a_server(tmp_path: Path, words: list[str]) -> None:
    _, loaded = run(tmp_path, *words)
    assert "click" in loaded
    assert not loaded & (SERVING | STORING | SELDOM | {"rich"})


def test_a_command_loads_no_server(tmp_path: Path) -> None:
    run(tmp_path, "setup", "--organization", "acme", "--owner", "octo", "--email", "octo@example.com")
    said, loaded = run(tmp_path, "token", "create", "--user", "octo", "--scopes", "repo,work", "--note", "mine")
    assert said[0].startswith("whp_")
    assert loaded >= STORING
    assert not loaded & (SERVING | SELDOM)


def test_an_idle_server_keeps_only_what_every_server_needs(tmp_path: Path) -> None:
    """Also on the first start, which makes a link to sign in with."""
    _, loaded = run(tmp_path, "serve", "--port", "0", until="workhook: listening")
    assert "/login/link/" in (tmp_path / "first-sign-in.txt").read_text()
    assert loaded >= SERVING | STORING
    assert not loaded & SELDOM


TABLES = """
from workhook.cli.lazy_imports import lazy_imports

with lazy_imports():  # as every command does
    from workhook.cli.app import app
from workhook import asgi
from workhook.storage.metadata import metadata

assert app
print(*sorted(metadata.tables))
"""


def test_the_command_line_knows_every_table() -> None:
    """`workhook database copy` copies the tables that it knows."""
    from workhook import asgi

    assert asgi.described()
    found = subprocess.run([sys.executable, "-c", TABLES], capture_output=True, text=True, check=True)
    assert found.stdout.split() == sorted(metadata.tables)
