"""File names and byte ranges from untrusted input."""

from __future__ import annotations

import re
import time
import unicodedata
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workhook.http.messages import disposition
from workhook.work.files.api import RangeNotSatisfiable, read_range
from workhook.work.files.upload import UNKNOWN_TYPE, clean_media_type, clean_name, extended_name


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        ("C:\\Users\\me\\report.pdf", "report.pdf"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("a/", "file"),
        ("..", "file"),
        (".", "file"),
        (" . ", "file"),
        ("", "file"),
        (".gitignore", ".gitignore"),
        ("a\r\nSet-Cookie: b\x00.txt", "aSet-Cookie: b.txt"),
        ("Überblick - 概要 👩‍💻.md", "Überblick - 概要 👩‍💻.md"),
        ("photo\u202egpj.exe", "photogpj.exe"),
        ("  spaces .txt ", "spaces .txt"),
        ("x" * 300 + ".tar", "x" * 251 + ".tar"),
        ("x" * 300, "x" * 255),
        ("a." + "x" * 300, "a." + "x" * 253),
    ],
)
def test_a_file_name_is_the_last_visible_path_component(raw: str, name: str) -> None:
    assert clean_name(raw) == name


@given(st.text())
@example("\xa0")  # white space other than a plain space
def test_every_cleaned_file_name_is_valid(raw: str) -> None:
    name = clean_name(raw)
    assert 1 <= len(name) <= 255
    assert name not in (".", "..")
    assert not set(name) & {"/", "\\", "\0"}
    assert "Cc" not in map(unicodedata.category, name)
    assert clean_name(name) == name


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("form-data; name=\"file\"; filename*=UTF-8''na%C3%AFve%20plan.txt", "naïve plan.txt"),
        ('form-data; name="file"; filename="x"; filename*=utf-8\'en\'%e2%82%ac', "€"),
        ("form-data; filename*=iso-8859-1''%A3", "£"),
        ('form-data; name="file"; filename="a; filename*=UTF-8\'\'b"', None),
        ("form-data; name=\"file; filename*=UTF-8''b", None),
        ("form-data; filename*=UTF-8''%ff", None),
        ("form-data; filename*=klingon''a", None),
        ("form-data; name=file", None),
        ("", None),
    ],
)
def test_extended_names_of_rfc_8187_are_decoded(header: str, name: str | None) -> None:
    assert extended_name(header) == name


@pytest.mark.parametrize("hostile", ['"\\', '\\"', '"', "; a=", "; filename*=", "; filename* ", " "])
def test_hostile_headers_are_parsed_quickly(hostile: str) -> None:
    began = time.process_time()
    extended_name("form-data" + hostile * (4000 // len(hostile)))
    assert time.process_time() - began < 0.05


@pytest.mark.parametrize("kind", ["text/plain", "text/plain; charset=utf-8", 'a/b+c; x="y z"', "image/svg+xml"])
def test_a_valid_media_type_is_kept(kind: str) -> None:
    assert clean_media_type(f" {kind} ") == kind


@pytest.mark.parametrize(
    "kind", [None, "", "text", "text/", "text/plain;", "text/plain\r\nX: y", "té/xt", "a/" + "b" * 200, "a/b; c=\x01"]
)
def test_an_invalid_media_type_becomes_unknown(kind: str | None) -> None:
    assert clean_media_type(kind) == UNKNOWN_TYPE


@given(st.text(min_size=1).map(clean_name))
def test_the_header_names_the_file_and_is_one_line_of_ascii(name: str) -> None:
    header = disposition(name)["Content-Disposition"]
    assert header.isascii()
    assert header.isprintable()
    found = re.fullmatch(r'attachment; filename="([^"\\%]+)"(?:; filename\*=UTF-8\'\'([A-Za-z0-9%._~-]+))?', header)
    assert found is not None
    assert (found[1] if found[2] is None else unquote(found[2])) == name
    assert extended_name(header) in (None, name)


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=2-4", (2, 5)),
        ("bytes=2-", (2, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        ("bytes=5-99", (5, 10)),
        ("BYTES = 5-" + "9" * 5000, (5, 10)),
        ("bytes=0002-04", (2, 5)),
        (None, None),
        ("", None),
        ("bytes=", None),
        ("bytes=-", None),
        ("bytes=4-2", None),
        ("bytes=1-2,4-5", None),
        ("bytes=+1-2", None),
        ("bytes=1-2x", None),
        ("bytes=\u0661-", None),
        ("items=0-1", None),
    ],
)
def test_a_range_header_is_parsed(header: str | None, found: tuple[int, int] | None) -> None:
    assert read_range(header, 10) == found


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=" + "9" * 5000 + "-"])
def test_a_range_beyond_the_end_is_not_satisfiable(header: str) -> None:
    with pytest.raises(RangeNotSatisfiable):
        read_range(header, 10)


def test_an_empty_file_has_no_ranges() -> None:
    assert read_range("bytes=-5", 0) is None
    with pytest.raises(RangeNotSatisfiable):
        read_range("bytes=0-", 0)


@given(st.text(), st.integers(0, 2**63))
def test_a_parsed_range_is_within_the_file(text: str, size: int) -> None:
    for header in (text, f"bytes={text}"):
        try:
            found = read_range(header, size)
        except RangeNotSatisfiable:
            continue
        assert found is None or 0 <= found[0] < found[1] <= size


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_satisfiable_ranges_are_returned(first: int, last: int, size: int) -> None:
    try:
        found = read_range(f"bytes={first}-{last}", size)
    except RangeNotSatisfiable:
        assert first >= size
        assert first <= last
        return
    assert found == (None if last < first else (first, min(last, size - 1) + 1))
