"""The page of commands contains the output of `--help`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from scripts import write_cli_reference
from scripts.write_cli_reference import PAGE, commands


@pytest.mark.parametrize("words", commands(), ids=lambda words: "-".join(words) or "workhook")
def test_the_page_contains_the_help_of_every_command(words: list[str]) -> None:
    said = write_cli_reference.section(words)
    assert said in PAGE.read_text(encoding="utf-8"), "run: python -m scripts.write_cli_reference"


def test_the_page_contains_nothing_else() -> None:
    assert PAGE.read_text(encoding="utf-8") == write_cli_reference.render()


@pytest.mark.parametrize(
    "words", [[], ["serve"], ["deliveries", "list"]], ids=lambda words: "-".join(words) or "workhook"
)
def test_the_page_matches_the_output_of_the_command(words: list[str]) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "workhook", *words, "--help"],
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stderr == ""
    assert said.stdout.rstrip() + "\n" == write_cli_reference.help_of(words)
    assert said.stdout.rstrip() in PAGE.read_text(encoding="utf-8")
