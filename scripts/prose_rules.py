"""Patterns of prose that read as if translated, with how often each may occur. The limits may only fall.

Checked are docstrings and comments, documents, texts that users read (the catalogs' English), and the subjects of
commits since the last release.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from babel.messages.pofile import read_po

SUBJECT_MAX = 72
_PAST = re.compile(r"^(?!(?:Embed|Exceed|Feed|Need|Proceed|Seed|Shed|Speed)\b)\w+ed\b|^(?!Bring|Ping|String)\w+ing\b")
"""The first word of a subject that is not in the imperative."""


class Pattern(NamedTuple):
    """A pattern, and how often it may occur in docstrings and comments (`code`), `documents` and users' `texts`."""

    name: str
    expression: re.Pattern[str]
    code: int
    documents: int
    texts: int = 0


PATTERNS = (
    Pattern(
        "starts with a relative clause or Of",
        re.compile(r"\A(?:What|Who|Whoever|Whom|Whose|That|How|Which|Of)\b(?!.*\?)"),
        3,
        0,
        6,  # "How it works", "That session has already ended."
    ),
    Pattern("nobody, whoever", re.compile(r"\b(?:nobody|whoever)\b", re.IGNORECASE), 7, 1),  # a value of a setting
    Pattern("is no, are none", re.compile(r"(?<![Tt]here )\b(?:is|are|was|were) (?:no|none)\b(?! longer)"), 1, 0),
    Pattern(
        "preposition and pronoun",
        re.compile(r"\b(?:of|for|in|to|by|from|with|at) (?:which|whom|what)\b"),
        125,
        10,
    ),
    Pattern("any more, anew", re.compile(r"\b(?:any more(?! than)|anew)\b"), 0, 0),
    Pattern("stands, is told", re.compile(r"\b(?:stands (?:in|for|beside|behind|there)|is told|are told)\b"), 6, 0),
)


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield every docstring of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text


def paragraphs(markdown: str) -> Iterator[str]:
    """Yield the prose of a document, without code, quotations and addresses."""
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`]*`|\"[^\"\n]*\"|\]\([^)]*\)", " ", prose)
    yield from (" ".join(part.split()) for part in re.split(r"\n\s*\n|^\s*(?:[-*|]|\d+\.)", prose, flags=re.MULTILINE))


def texts(catalogues: Iterable[Path]) -> Iterator[str]:
    """Yield what users read in English: the IDs of pages and what the English catalog puts in their place."""
    english: dict[str, str] = {}
    others: set[str] = set()
    for path in catalogues:
        with path.open("rb") as file:
            for message in read_po(file):
                forms = message.id if isinstance(message.id, list | tuple) else [message.id]
                if not message.id:
                    continue
                if path.parts[-3] == "en":
                    english[forms[0]] = str(message.string)
                else:
                    others.update(forms)
    yield from sorted(english.get(text, text) for text in others)


def comments(source: str) -> Iterator[str]:
    """Yield every comment of a module, without its `#`. Lines below each other form one comment."""
    text, below = "", (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, (row, column) = token.string.lstrip("# "), token.start
            if (row, column) == below:
                text = f"{text} {line}"
            else:
                yield text
                text = line
            below = row + 1, column
    yield text


def count_violations(counted: dict[Pattern, int], limits: dict[Pattern, int], where: str) -> Iterator[str]:
    """Yield a fault for each pattern whose count exceeds its limit."""
    for pattern, limit in limits.items():
        if counted[pattern] > limit:
            yield f"{where}: “{pattern.name}” occurs {counted[pattern]} times, {limit} are allowed (prose_rules.py)"


def counts(prose: Iterable[str]) -> dict[Pattern, int]:
    """Count in how many of the texts each pattern occurs."""
    listed = list(prose)
    return {each: sum(each.expression.search(text) is not None for text in listed) for each in PATTERNS}


def subject_violations(subjects: Iterable[str]) -> Iterator[str]:
    """Yield each subject that is too long or not in the imperative."""
    for subject in subjects:
        if len(subject) > SUBJECT_MAX:
            yield f"commit “{subject}”: more than {SUBJECT_MAX} characters"
        if _PAST.search(subject):
            yield f"commit “{subject}”: start with a verb in the imperative"


def subjects(root: Path) -> list[str]:
    """Return the subjects of the commits since the newest release tag, at most 100; none without Git."""
    git = ["git", "-C", str(root), "-c", f"safe.directory={root}"]
    tag = subprocess.run(
        [*git, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"], capture_output=True, text=True, check=False
    )
    since = [f"{tag.stdout.strip()}..HEAD"] if tag.returncode == 0 else ["HEAD"]
    done = subprocess.run(
        [*git, "log", "--no-merges", "--max-count=100", "--format=%s", *since],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.splitlines()


def prose_violations(root: Path) -> Iterator[str]:
    """Yield every fault of the repository's prose."""
    modules = [path for top in ("src", "scripts", "bench", "tests") for path in sorted((root / top).rglob("*.py"))]
    own = [path for path in modules if "node_modules" not in path.parts]
    sources = [path.read_text(encoding="utf-8") for path in own]
    in_code = counts(text for source in sources for text in (*docstrings(ast.parse(source)), *comments(source)))
    yield from count_violations(in_code, {each: each.code for each in PATTERNS}, "code")
    pages = [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]
    in_pages = counts(text for page in pages for text in paragraphs(page.read_text(encoding="utf-8")))
    yield from count_violations(in_pages, {each: each.documents for each in PATTERNS}, "documents")
    catalogues = sorted((root / "src/workhook/web/locales").glob("*/LC_MESSAGES/*.po"))
    yield from count_violations(counts(texts(catalogues)), {each: each.texts for each in PATTERNS}, "texts")
    yield from subject_violations(subjects(root))
