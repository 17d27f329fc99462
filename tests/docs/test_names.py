"""Names on the pages exist: commands and their flags, settings, metrics, paths and error messages."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache

import pytest

from scripts.write_cli_reference import commands, help_of
from tests.docs.pages import PAGES, ROOT
from workhook.asgi import described
from workhook.core.config import Settings
from workhook.http.operations import Operation

SERVED: tuple[Operation, ...] = described()
HEAD_MIN_CHARS = 12


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def source_strings() -> list[str]:
    """Return every string in the source, with NUL in place of interpolated values."""
    found: list[str] = []
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [str(each.value) if isinstance(each, ast.Constant) else "\0" for each in node.values]
                found.append("".join(parts))
    return found


def is_in_source(head: str) -> bool:
    """Return whether a string contains `head`, or its beginning up to the first interpolated value is a prefix of
    `head`."""
    begins = (text.partition("\0")[0] for text in source_strings())
    return any(head in text for text in source_strings()) or any(
        len(begin) >= HEAD_MIN_CHARS and head.startswith(begin) for begin in begins
    )


def written_commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each `workhook WORD …` in code as the words that may be its name and the flags after them."""
    code = re.findall(r"^```sh.*?^```$|`workhook [^`]+`", text, flags=re.S | re.M)
    for line in "\n".join(code).replace("\\\n", " ").splitlines():
        for words, rest in re.findall(r"(?:^|[`/ ])workhook((?: [a-z][a-z-]*)+)([^`|#]*)", line):
            yield words.split(), re.findall(r"(?<!\S)--[a-z-]+", rest)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_flag_exists(page: str) -> None:
    known = {tuple(words) for words in commands()}
    wrong = []
    for words, flags in written_commands(text_of(page)):
        name = next((words[:length] for length in range(len(words), 0, -1) if tuple(words[:length]) in known), None)
        if name is None:
            wrong.append(" ".join(words))
        else:
            wrong += [f"{' '.join(name)} {flag}" for flag in flags if f"{flag} " not in help_of(name)]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_and_metric_exists(page: str) -> None:
    settings = {each.name for each in fields(Settings)}
    variables = {each.lower() for each in re.findall(r"\bWORKHOOK_([A-Z_]+[A-Z])\b", text_of(page))}
    assert {each.removesuffix("_file") for each in variables} <= settings
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    known = set(re.findall(r"\bworkhook_([a-z0-9_]+)", source))
    metrics = set(re.findall(r"`workhook_([a-z0-9_]+)", text_of(page))) - {"session"}  # that is the cookie
    suffix = re.compile("_(info|bucket|count|sum)$")  # added by the library
    assert [each for each in metrics if each not in known and suffix.sub("", each) not in known] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_path_exists(page: str) -> None:
    """Paths are recognized after a method, or after `$W` and `$API`."""
    patterns = [(each.method, re.compile(re.sub(r"\{[^}]+\}", "[^/]+", each.path))) for each in SERVED]
    asked = re.findall(r"\b(GET|POST|PUT|PATCH|DELETE) (?:\$W|\$API)?(/[^\s`\"?]*)", text_of(page))
    asked += [("", path) for path in re.findall(r"\$(?:W|API)(/[^\s`\"?]+)", text_of(page))]
    missing = []
    for method, path in asked:
        asked_for = path.removeprefix("/api/v1").rstrip(".,;:)'")
        found = any(method in ("", each) and pattern.fullmatch(asked_for) for each, pattern in patterns)
        if asked_for and not found:
            missing.append(f"{method} {path}")
    assert missing == []


@pytest.mark.parametrize("page", ["docs/integrators/apps.md", "docs/operators/openid-connect.md"])
def test_every_documented_error_exists(page: str) -> None:
    """The tables of error messages are compared up to the first ellipsis."""
    heads = [each.strip() for each in re.findall(r"^\| `([^`…]+)", text_of(page), flags=re.M)]
    heads = [each for each in heads if len(each) >= HEAD_MIN_CHARS]
    assert len(heads) > 4
    heads += re.findall(r"`(oidc_[a-z_]+)`", text_of(page))
    assert [each for each in heads if not is_in_source(each)] == []


def test_the_supported_python_versions_match_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    newest = [each for each in project["classifiers"] if ":: Python ::" in each][-1].rpartition(" ")[2]
    [stated] = re.findall(
        r"^\| Python \| ([0-9.]+) \(.*\) to ([0-9.]+) \|$", text_of("docs/operators/install.md"), flags=re.M
    )
    assert stated == (project["requires-python"].removeprefix(">="), newest)


def test_every_crontab_sets_the_path_of_the_command() -> None:
    found = [
        block
        for page in PAGES
        for block in re.findall(r"^```\w*\n(.*?)^```$", text_of(page), flags=re.S | re.M)
        if re.search(r"^\d+ \d+ \S+ \S+ \S+ ", block, flags=re.M)
    ]
    assert found
    assert [each for each in found if not each.startswith("PATH=/usr/local/bin:")] == []
