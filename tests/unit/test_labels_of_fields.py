"""Every form field has a label, and its errors are worded for pages."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import workhook.web
from scripts.texts import ENGLISH, stored_in
from workhook.core.errors import Invalid
from workhook.http import parameters
from workhook.web.frame import refusals

WEB = Path(workhook.web.__file__).parent
LABELS = {str(each.id): str(each.string) for each in stored_in(ENGLISH) if each.context == "field"}
# Fields that people type into or choose from, except filters. Checkboxes cannot be wrong.
_TYPED = re.compile(
    r'<(?:input|select|textarea)\b(?![^>]*(?:type="(?:checkbox|radio|hidden|search)"|id="filter-))[^>]*\bname="(\w+)"'
)
_BY_MACRO = re.compile(r'\b(?:credit_field\("\w+", |field\(|text_area\()\w+, "(\w+)"')
_SHAPE = re.compile(r"(Create|Edit|Input|Parameters|Field|Names|Cancel|Address|Account)$")
WRONG = ("", "\0", "x" * 70_000, "-7", "9" * 20, "1970", "<b></b>")


def typed_names() -> frozenset[str]:
    """Return the names of the fields in the templates."""
    texts = [each.read_text() for each in WEB.rglob("*.html")]
    return frozenset(name for text in texts for kind in (_TYPED, _BY_MACRO) for name in kind.findall(text))


def shapes() -> Iterator[type[msgspec.Struct]]:
    """Yield the structs that pages parse forms into: those passed to a call in files that read forms."""
    for path in WEB.rglob("*.py"):
        source = path.read_text()
        if "visit.form(" not in source and "parameters.gather(" not in source:
            continue
        module = importlib.import_module(".".join(("workhook", *path.relative_to(WEB.parent).with_suffix("").parts)))
        for node in ast.walk(ast.parse(source)):
            found = _named(module, node) if isinstance(node, ast.Name | ast.Attribute) else None
            if isinstance(found, type) and issubclass(found, msgspec.Struct) and _SHAPE.search(found.__name__):
                yield found


def _named(module: object, node: ast.Name | ast.Attribute) -> object:
    if isinstance(node, ast.Name):
        return getattr(module, node.id, None)
    return getattr(_named(module, node.value), node.attr, None) if isinstance(node.value, ast.Name) else None


def _cases() -> list[tuple[type[msgspec.Struct], str]]:
    typed = typed_names()
    pairs = {(shape, each.encode_name) for shape in shapes() for each in msgspec.structs.fields(shape)}
    return sorted((pair for pair in pairs if pair[1] in typed), key=lambda pair: (pair[0].__name__, pair[1]))


CASES = _cases()


def test_form_fields_are_found() -> None:
    names = {name for _, name in CASES}
    assert {"title", "qty", "unit_price", "amount", "limit_pausing", "billable_rate", "homepage_url", "login"} <= names
    assert len(CASES) > 40


@pytest.mark.parametrize(("shape", "name"), CASES)
def test_field_errors_are_worded_for_pages(shape: type[msgspec.Struct], name: str) -> None:
    assert name in LABELS
    for value in WRONG:
        try:
            parameters.gather(shape, {name: [value]}, {})
        except Invalid as problem:
            for message in (each.message or "" for each in problem.faults if each.field == name):
                said = refusals.in_words(message)
                assert said != message
                assert not re.search(rf"\w_\w|\bnull\b|^{name}\b", said), said
    try:
        parameters.gather(shape, {}, {})
    except Invalid as problem:
        missing = [refusals.in_words(each.message or "") for each in problem.faults if each.field == name]
        assert missing in ([], [f"{LABELS[name]} is required"])
