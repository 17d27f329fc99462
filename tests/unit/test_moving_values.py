"""An archive of an organization contains only values that the API would store."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from workhook import asgi
from workhook.http import parameters
from workhook.work.portability.transfer.kinds import KINDS, LineKind
from workhook.work.portability.transfer.lines import (
    CHECKED_BY_NAME,
    EMPTIED,
    INPUTS,
    Field,
    declared_check,
    fields_of_kind,
)

assert asgi, "it knows every table"

FIELDS = [(kind, field) for kind in KINDS for field in fields_of_kind(kind)]
DECLARED = [(kind, each) for kind, each in FIELDS if declared_check(kind.name, each.column) and each.check]
HOSTILE = (
    "", " ", "a\r\nSet-Cookie: b=c", "{number!r}{0.__class__}", "FREQ=DAILY;EVIL", "DE00", "x" * 100_000, "../x",
    "\x7f",
    "javascript:alert(1)", "=1+1", "\u202eexe", "Europe/Atlantis", "XXX", -1, 0, 10**18, -(10**18), 2**63 - 1,
)  # fmt: skip
VALUES = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40), st.integers(-(2**63), 2**63 - 1))


def _is_text(kind: LineKind, field: Field) -> bool:
    plain = get_args(field.type) if type(None) in get_args(field.type) else (field.type,)
    literal = any(get_origin(each) is Literal for each in plain)
    return isinstance(kind.source.c[field.column].type, sa.Text) and not (field.json or field.refers or literal)


@given(st.sampled_from(DECLARED), VALUES)
def test_archives_refuse_values_that_the_api_refuses(declared: tuple[LineKind, Field], value: Any) -> None:
    kind, field = declared
    if isinstance(value, str) is not _is_text(kind, field):
        return
    check = declared_check(kind.name, field.column)
    assert check is not None
    assert field.check is not None
    if check(value) is not None:
        assert field.check(value) is not None


@pytest.mark.parametrize("value", [each for each in HOSTILE if isinstance(each, str)])
def test_hostile_texts_are_judged_as_by_the_api(value: str) -> None:
    for kind, field in DECLARED:
        shape = INPUTS.get(kind.name)
        if shape is None or not _is_text(kind, field) or not parameters.takes(shape, field.column):
            continue
        assert field.check is not None
        if not value and (kind.name, field.column) in EMPTIED:
            assert field.check(value) is None, "a comment that was deleted"
        elif parameters.fault_of(shape, field.column, value) is not None:
            assert field.check(value) is not None, (kind.name, field.name)


def test_every_text_of_an_archive_has_a_rule() -> None:
    """A new column must be declared by a parameter of the API or have a rule by its name."""
    without = {
        (kind.name, field.name)
        for kind, field in FIELDS
        if _is_text(kind, field)
        and not field.is_id
        and not declared_check(kind.name, field.column)
        and field.column not in CHECKED_BY_NAME
        and (kind.name, field.column) not in CHECKED_BY_NAME
    }
    assert without == {
        ("file_comment_replies", "plain_body"), ("import_links", "external_id"), ("import_links", "fingerprint"),
        ("import_links", "internal_id"), ("import_links", "source"), ("invoices", "credit_type"),
    }  # fmt: skip


def test_numeric_limits_apply_to_archives() -> None:
    check = {(kind.name, field.name): field.check for kind, field in FIELDS}["service_checkouts", "qty"]
    assert check is not None
    assert check(10_001) is not None
    assert check(10_000) is None


def _takes(kind_name: str, field_name: str, value: object) -> bool:
    field = {(kind.name, each.name): each for kind, each in FIELDS}[kind_name, field_name]
    try:
        made = msgspec.convert(value, field.type)
    except msgspec.ValidationError:
        return False
    return made is None or field.check is None or field.check(made) is None


def test_a_reference_to_a_deleted_record_must_be_a_valid_id() -> None:
    found = [(kind.name, each.name) for kind, each in FIELDS if each.may_be_missing]
    assert ("tasks", "next_id") in found
    for kind, name in [*found, ("tasks", "id")]:
        assert _takes(kind, name, "tsk_" + 26 * "0")
        for wrong in ("", "x", "tsk_" + 26 * "0" + "\n", "tsk_" + 25 * "0" + "\r\nX: y"):
            assert not _takes(kind, name, wrong), (kind, name, wrong)


@pytest.mark.parametrize(
    ("kind", "name", "wrong", "right"),
    [
        ("organization", "name", ("", " ", "a\r\nb", "a\u2028b", "x" * 256), ("Studio", None)),
        ("invoices", "invoice_number", ("", "1\r\nX: y", " 1", "x" * 100), ("INV-00001", None)),
        ("credit_notes", "credit_note_number", ("", "1\r\nX: y", "1\u2028"), ("CN-1",)),
        ("closing_commits", "commit_id", ("", "x" * 65), ("a" * 40,)),
        ("tasks", "rank", (2**63 - 2, -(2**63), 1), (0, -(2**32), 2**62)),
        ("task_buckets", "rank", (2**63 - 2, -(2**63), 1), (0, 2**32)),
        ("task_credits", "uses", ([["a\r\nb", 1]],), ([["crd_" + 26 * "0", 1]],)),
        ("invoices", "items", ([["Work", "1", 1, "x", 1]],), ([["Work", "1", 1, None, None]],)),
        ("invoices", "payments", ([["x", 1, 1]],), ([["pay_" + 26 * "0", 1, 1]],)),
    ],
)
def test_names_numbers_and_ids_are_validated(
    kind: str, name: str, wrong: tuple[object, ...], right: tuple[object, ...]
) -> None:
    for value in wrong:
        assert not _takes(kind, name, value), value
    for value in right:
        assert _takes(kind, name, value), value
