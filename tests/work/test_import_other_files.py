"""Files of other programs that hold no text: who chooses one is told what to do."""

from __future__ import annotations

import io
import zipfile

import pytest

from workhook.work.portability.imports.json_file import NotUsable, parse_json
from workhook.work.portability.imports.sources import Choices, SourceFile, plan_of_any, plans_of


def packed(*names: str) -> bytes:
    """A zip file with entries of these names, of which the first is not packed and holds what it says."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            name, _, content = name.partition("=")
            archive.writestr(name, content, zipfile.ZIP_STORED)
    return out.getvalue()


OPEN_DOCUMENT = packed("mimetype=application/vnd.oasis.opendocument.spreadsheet", "content.xml")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (packed("[Content_Types].xml", "xl/workbook.xml"), "it is an Excel file: save it as CSV (UTF-8)"),
        (packed("[Content_Types].xml", "xl/workbook.bin"), "it is an Excel file: save it as CSV (UTF-8)"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(500), "it is an Excel file: save it as CSV (UTF-8)"),
        (OPEN_DOCUMENT, "it is an OpenDocument file: save it as CSV (UTF-8)"),
        (packed("Index/Document.iwa", "Metadata/Properties.plist"), "it is a Numbers file: save it as CSV (UTF-8)"),
        (packed("plan.csv"), "it is a packed file (ZIP): unpack it"),
        (b"%PDF-1.7\n", "it is a PDF, and no table"),
    ],
)
def test_a_file_of_another_program_is_named(data: bytes, said: str) -> None:
    for choose in (
        lambda: plan_of_any(SourceFile("plan.csv", data), Choices()),
        lambda: plans_of("csv", [SourceFile("plan.csv", data)], Choices()),
        lambda: plans_of("trello", [SourceFile("plan.csv", data)], Choices()),
    ):
        with pytest.raises(NotUsable) as raised:
            choose()
        [fault] = raised.value.faults
        assert said in fault


def test_a_table_that_begins_like_one_is_a_table() -> None:
    assert plan_of_any(SourceFile("x.csv", b"PK,Title\n1,a\n"), Choices()).tasks[0].title == "a"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" * 100_000, "it is nested too deeply"),
        (b"[" + b"9" * 5_000 + b"]", "it has a number of more than 4,300 digits"),
        (b'["\xff"]', "it is neither UTF-8 nor UTF-16 or -32; save the file in UTF-8"),
        (b"[NaN]", "it is not JSON: NaN is no number of JSON"),
    ],
)
def test_limits_of_the_reader_are_told_in_words_of_ours(data: bytes, said: str) -> None:
    with pytest.raises(NotUsable) as raised:
        parse_json(data)
    assert raised.value.faults == [said]
