"""The target after signing in is always a path of this server."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workhook.web.frame.sessions import safe_return_to

GOOD = (
    "/",
    "/settings/password",
    "/login/oauth/authorize?client_id=a&redirect_uri=https%3A%2F%2Fexample.com%2Fcb&state=%2F%2F",
    "/login/device?user_code=ABCD-EFGH",
    "/a%20b",
    "/a?next=//evil.example",
)
BAD = (
    "",
    None,
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "\\/evil.example",
    "https://evil.example",
    "https:evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "evil.example",
    "@evil.example",
    " //evil.example",
    "/ /evil.example",
    "/\t/evil.example",
    "\t//evil.example",
    "/\n/evil.example",
    "/\r\nSet-Cookie: a=b",
    "/\x00/evil.example",
    "/\x7f",
    "/%2F/evil.example",
    "/%2f%2fevil.example",
    "/%5Cevil.example",
    "/%5c%5cevil.example",
    "/%09/evil.example",
    "/%0d%0aSet-Cookie:%20a=b",
    "/%252F/evil.example",
    "/%25252525252F/evil.example",
    "%2F%2Fevil.example",
    "/.//evil.example",
    "/..//evil.example",
    "/./%2Fevil.example",
    "/%2e%2e//evil.example",
    "/a//evil.example",
    "/a?b=\\",
    "/\u2028/evil",
    "/\uff0f/evil.example",
    "/%EF%BC%8F/../evil.example",
    "/" + "a" * 9000,
)


@pytest.mark.parametrize("text", GOOD)
def test_a_path_of_this_server_is_kept(text: str) -> None:
    assert safe_return_to(text) == text


@pytest.mark.parametrize("text", BAD)
def test_anything_else_becomes_the_start_page(text: str | None) -> None:
    assert safe_return_to(text) == "/"


@given(st.text(alphabet="/\\.%25cCfF09aA:@?# \t\r\nhtps", max_size=20))
@example("/%5")
def test_no_text_leads_to_another_site(text: str) -> None:
    """Interpreted like a browser does: without tabs and line breaks, and with backslashes as slashes."""
    kept = safe_return_to(text)
    seen = kept.replace("\t", "").replace("\n", "").replace("\r", "").replace("\\", "/").strip()
    assert seen.startswith("/")
    assert not seen.startswith("//")
    assert seen == kept
