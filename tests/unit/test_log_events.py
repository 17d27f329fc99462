"""Log entries: their names are events in snake case, and the same fact has the same field everywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LOGGERS = {"log", "logger", "_log"}
LEVELS = {"debug", "info", "warning", "error", "exception"}
INSTEAD = {
    "advice": "remedy", "again_in_s": "retry_in_s", "cause": "error", "message": "error", "number": "count",
    "pause_s": "retry_in_s", "remark": "note",
}  # fmt: skip


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((ROOT / "src").rglob("*.py")):
        if "git_push" in path.parts:  # its log is a text file beside the Git repository
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=level)):
                    if name in LOGGERS and level in LEVELS:
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def event_names() -> set[str]:
    return {str(each.args[0].value) for _, each in calls() if isinstance(each.args[0], ast.Constant)}


def test_events_are_names_not_sentences() -> None:
    assert len(event_names()) > 80
    assert [each for each in event_names() if not re.fullmatch("[a-z]+(_[a-z]+)*", each)] == []
    formatted = [place for place, each in calls() if isinstance(each.args[0], ast.JoinedStr)]
    assert formatted == []


def test_a_fact_has_one_field_name() -> None:
    wrong = [
        f"{place}: {field.arg} should be {INSTEAD[field.arg]}"
        for place, each in calls()
        for field in each.keywords
        if field.arg in INSTEAD
    ]
    assert wrong == []


def test_documents_and_alerts_name_events_that_exist() -> None:
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    named = re.findall(r"[Ss]earch\s+the\s+log\s+for\s+([a-z_]+)", alerts)
    named += re.findall(r"[Tt]he\s+log\s+has\s+([a-z]+_[a-z_]+)", alerts)
    for page in (ROOT / "docs" / "operators").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        named += re.findall(r"`([a-z]+(?:_[a-z]+)+)`\s+in\s+the\s+log", text)
        named += re.findall(r"(?:logged\s+as|logs|log\s+(?:contains|for))\s+`([a-z]+(?:_[a-z]+)+)`", text)
    assert len(set(named)) > 10
    assert set(named) - event_names() == set()
