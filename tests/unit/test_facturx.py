"""Factur-X metadata is inserted into PDF files made by Typst, and into no other files."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import typst

from tests.harness.depth import deep
from tests.work.archival import facturx_properties, faults, opened
from workhook.work.money.invoices.facturx import UnknownForm, with_metadata

HOSTILE = "</rdf:RDF></rdf:Bag></pdfaExtension:schemas> /Metadata 1 0 R trailer <</Root 2 0 R>> startxref 9 %%EOF"
_ATTACH = (
    '#pdf.attach("factur-x.xml", bytes("<a/>"), relationship: "alternative", mime-type: "text/xml", description: t)'
)


def made(title: str = "Invoice", pages: int = 1) -> bytes:
    source = (
        f'#let t = "{title}"\n#set document(title: t, author: t, date: auto)\n{_ATTACH}\n#t\n'
        + "#pagebreak()\nx" * (pages - 1)
    )
    return typst.compile(source.encode(), format="pdf", pdf_standards="a-3b", timestamp=1_700_000_000)


@pytest.mark.parametrize(
    ("title", "pages"),
    [("Invoice", 1), ("Rechnung Ö & <x> (1)", 3), (HOSTILE, 40)],
    ids=["short", "escaped", "hostile"],
)
def test_inserting_metadata_changes_nothing_else(title: str, pages: int) -> None:
    before = made(title, pages)
    after = with_metadata(before)
    assert after == with_metadata(before)
    assert faults(before) == ["what it says of the e-invoice is not described"]
    assert faults(after) == []
    old, new = opened(before), opened(after)
    assert facturx_properties(old) == {}
    assert facturx_properties(new)["ConformanceLevel"] == "EN 16931"
    assert [each.extract_text() for each in new.pages] == [each.extract_text() for each in old.pages]
    assert new.attachments == old.attachments
    assert new.metadata == old.metadata
    assert {number: len(each) for number, each in new.xref.items()} == {n: len(e) for n, e in old.xref.items()}


@pytest.mark.parametrize(
    "other",
    [
        lambda: b"",
        lambda: b"%PDF-1.7\n",
        lambda: made()[:-1],
        lambda: made()[:-30],
        lambda: made() + b"\nx",
        lambda: b"x" + made(),
        lambda: typst.compile(b"x", format="pdf"),
        lambda: with_metadata(made()),
    ],
    ids=["empty", "head", "cut", "cut more", "longer", "shifted", "not for archives", "has it already"],
)
def test_other_files_are_refused(other: Callable[[], bytes]) -> None:
    pdf = other()
    with pytest.raises(UnknownForm):
        with_metadata(pdf)


@pytest.mark.parametrize("seed", range(deep(3, 30)))
def test_a_damaged_file_is_refused_or_accepted(seed: int) -> None:
    """No damage causes any other error."""
    chance, whole = random.Random(seed), made()
    for _ in range(300):
        damaged = bytearray(whole)
        # Most of the parsed data is at the end.
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(whole) - 6000, len(whole))] = chance.choice(b"0159 \n<>/Rxn")
        try:
            with_metadata(bytes(damaged))
        except UnknownForm:
            continue
