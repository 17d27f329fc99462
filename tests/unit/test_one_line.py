"""Names, titles and labels are a single line, whatever their source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.asgi import described
from workhook.core.errors import Invalid
from workhook.core.text import is_one_line, one_line
from workhook.http import parameters
from workhook.work.board.projects.schemas import ProjectCreate
from workhook.work.board.tasks.inputs import TaskCreate
from workhook.work.portability.imports.mapping import title_of
from workhook.work.portability.transfer.lines import check_account_name, check_name

BREAKS = ("\r\n", "\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\x01", "\t")

SEVERAL_LINES = {
    "description", "text", "body", "reason", "feedback", "notes", "address", "bill_from", "bill_to", "payment_terms",
    "payment_method", "public_key",
}  # fmt: skip
ANY_KEYS = {"fields{}", "sections{}"}
NAMES_OF_WHAT_EXISTS = {
    "access_token", "admin", "app", "assignees[]", "blocked_by[]", "column_id", "folder", "id", "organization",
    "parent_id", "permissions{}", "project_id", "repositories[]", "scopes[]", "service_id", "service_price_id",
    "target", "task_id", "timesheet_ids[]", "username",
}  # fmt: skip
CHECKED_BY_ITS_ACTION = {"callback_urls[]", "homepage_url", "invoice_number", "login"}


def texts_of(kind: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each text in a type with its path."""
    for option in parameters._options(kind):
        plain = parameters._plain(option)
        if isinstance(plain, type) and issubclass(plain, msgspec.Struct):
            for field in msgspec.structs.fields(plain):
                yield from texts_of(field.type, f"{path}.{field.encode_name}")
        elif get_origin(plain) in (list, dict):
            yield from texts_of(get_args(plain)[0], path + ("[]" if get_origin(plain) is list else "{}"))
        elif plain is str:
            yield path, option


def test_every_text_in_a_request_is_declared_single_line_or_multiline() -> None:
    """A new field must have a single-line type such as `Title`, or be listed in one of the tables above."""
    bodies = {each.body for each in described() if isinstance(each.body, type)}
    for path, kind in (found for body in bodies for found in texts_of(body, body.__name__)):
        owner, _, name = path.rpartition(".")
        if name in SEVERAL_LINES | ANY_KEYS | NAMES_OF_WHAT_EXISTS | CHECKED_BY_ITS_ACTION:
            continue
        if name == "name" and owner.endswith(("AppCreate", "AppEdit")):
            continue  # `apps.schemas.name_faults`
        rules = [each.complaint for each in parameters._notes(kind) if isinstance(each, parameters.Rule)]
        for separator in BREAKS:
            stored = parameters.preparer(kind)(f"first{separator}second")
            assert is_one_line(stored) or any(rule(stored) for rule in rules), f"{path}: {stored!r}"


@given(st.lists(st.sampled_from((*BREAKS, "a", "b", " ", "\xa0")), min_size=1).map("".join))
def test_a_stored_title_is_valid_in_an_archive(typed: str) -> None:
    try:
        stored = parameters.gather(ProjectCreate, {}, {"title": typed}).title
    except Invalid:
        assert not one_line(typed)
        return
    assert stored == one_line(typed) == title_of(typed)
    assert is_one_line(stored)
    assert check_account_name(stored) is check_name(stored) is None
    if stored != typed:
        assert check_account_name(typed) is not None
        assert check_name(typed) is not None


def test_labels_and_the_keys_of_label_colors_are_normalized_alike() -> None:
    typed = " Needs\r\nreview "
    [label] = parameters.gather(TaskCreate, {}, {"title": "Task", "labels": [typed]}).labels or []
    colors = parameters.gather(ProjectCreate, {}, {"title": "Website", "label_colors": {typed: "red"}}).label_colors
    assert (label, colors) == ("Needs review", {"Needs review": "red"})


@pytest.mark.parametrize("label", ["\x01", "\u2028", "  "])
def test_a_label_must_have_visible_characters(label: str) -> None:
    with pytest.raises(Invalid):
        parameters.gather(TaskCreate, {}, {"title": "Task", "labels": [label]})


def test_nul_is_refused_rather_than_removed() -> None:
    with pytest.raises(Invalid) as refused:
        parameters.gather(TaskCreate, {}, {"title": "a\0b"})
    assert "NUL" in str(refused.value.faults[0].message)
