"""OAuth rules that need no server: redirect targets, PKCE, scopes and user codes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from hypothesis import given
from hypothesis import strategies as st

from tests.api.oauth_kit import new_pkce
from workhook.core.urls import with_parameters
from workhook.identity.apps import credentials
from workhook.identity.apps.schemas import App
from workhook.identity.oauth import codes, grants
from workhook.web.signin.consent import PERMISSION_WORDS, SCOPE_WORDS

APP = App(
    id=1, kind="oauth", account_id=2, client_id="c", slug="tool", name="Tool", description=None, homepage_url=None,
    callback_urls=(), device_flow=False, public=False, permissions={}, bot_id=None, created_at=0, updated_at=0,
)  # fmt: skip

LOOPBACKS = ("http://127.0.0.1/cb", "http://[::1]:8080/cb?x=1", "http://localhost/cb")


@pytest.mark.parametrize(
    "asked",
    [
        *LOOPBACKS,
        "http://127.0.0.1:1/cb",
        "http://127.0.0.1:65535/cb",
        "http://[::1]/cb?x=1",
        "http://[::1]:9/cb?x=1",
    ],
)
def test_only_the_port_of_a_loopback_address_is_free(asked: str) -> None:
    assert codes.fits(asked, LOOPBACKS)


@pytest.mark.parametrize(
    "asked",
    [
        "http://127.0.0.1",
        "http://127.0.0.1:80",
        "http://127.0.0.1:80/cb/",
        "http://127.0.0.1:80/cb?x=1",
        "http://127.0.0.1:80/cb#",
        "https://127.0.0.1:80/cb",
        "http://127.0.0.2:80/cb",
        "http://127.1:80/cb",
        "http://2130706433:80/cb",
        "http://127.0.0.1:123456/cb",
        "http://127.0.0.1:/cb",
        "http://127.0.0.1:80:81/cb",
        "http://127.0.0.1:80@evil.example/cb",
        "http://127.0.0.1.evil.example/cb",
        "http://127.0.0.1\\@evil.example/cb",
        "http://evil.example/cb",
        "http://[::1]:9/cb",
        "http://[::1]:9/cb?x=2",
        "http://[::2]:9/cb?x=1",
        "http://localhost:80/cb",
        "HTTP://127.0.0.1:80/cb",
        "http://127.0.0.1:\uff18\uff10/cb",
        "http://127.0.0.1:80/cb\n",
        "",
    ],
)
def test_every_other_part_of_a_loopback_address_must_match(asked: str) -> None:
    assert not codes.fits(asked, LOOPBACKS)


@pytest.mark.parametrize(
    "uri",
    ["javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:x",
     "https:///x", "https://", "//evil.example", "/relative", "", "https://a.example/#", "https://a.example/\r\nX: y",
     "https://[::1/x"],
)  # fmt: skip
def test_a_browser_is_never_redirected_to_executable_content(uri: str) -> None:
    assert not codes.can_be_sent_to(uri)


def test_redirect_uris_of_native_programs_are_recognized() -> None:
    assert all(codes.is_native(uri) for uri in (*LOOPBACKS, "com.example.app:/cb", "http://localhost:3000"))
    assert not any(codes.is_native(uri) for uri in ("https://127.0.0.1.example/", "https://a.example/localhost"))


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("https://a.example", "https://a.example?code=1&state=%26%3D%0D%0A"),
        ("https://a.example/?x=%2F&y=", "https://a.example/?x=%2F&y=&code=1&state=%26%3D%0D%0A"),
        ("com.example.app:/cb", "com.example.app:/cb?code=1&state=%26%3D%0D%0A"),
        ("http://[::1]:8/cb;p", "http://[::1]:8/cb;p?code=1&state=%26%3D%0D%0A"),
    ],
)
def test_parameters_are_appended_to_the_existing_query(uri: str, expected: str) -> None:
    parameters = [("code", "1"), ("nothing", None), ("state", "&=\r\n")]
    assert with_parameters(uri, parameters) == expected


@given(st.from_regex(r"[A-Za-z0-9\-._~]{43,128}", fullmatch=True))
def test_the_challenge_of_a_verifier_equals_authlibs(verifier: str) -> None:
    assert codes.challenge_of(verifier) == create_s256_code_challenge(verifier)  # type: ignore[no-untyped-call]  # the stubs lack the types


def test_pkce_accepts_only_the_right_verifier() -> None:
    verifier, parameters = new_pkce()
    challenge = parameters["code_challenge"]
    assert codes.challenge_fault(challenge, "S256") is None
    assert codes.verifier_fault(verifier, challenge) is None
    # The example of RFC 7636, appendix B.
    example = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert codes.verifier_fault(example, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM") is None
    for wrong in (None, "", challenge, verifier[:-1], verifier + "a", verifier + "\n", "a" * 129, "ä" * 43):
        assert codes.verifier_fault(wrong, challenge)
    assert codes.verifier_fault(None, None) is None
    assert codes.verifier_fault(verifier, None)
    for method in (None, "plain", "s256", "S512", ""):
        assert codes.challenge_fault(challenge, method)
    for bad in ("", challenge + "=", challenge[:-1], challenge[:-1] + "+", challenge + "\n"):
        assert codes.challenge_fault(bad, "S256")


@pytest.mark.parametrize("check", [codes.verifier_fault, credentials.authenticate_client])
def test_secrets_are_compared_in_constant_time(check: Callable[..., Any]) -> None:
    """The source is inspected, because a measurement would be too noisy here."""
    source = inspect.getsource(inspect.getmodule(check) or check)
    assert "compare_digest" in source
    function = ast.parse(inspect.getsource(check))
    compared = [ast.dump(each) for each in ast.walk(function) if isinstance(each, ast.Compare)]
    assert not [each for each in compared if "Eq()" in each]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ""),
        (" , ", ""),
        ("repo", "repo"),
        ("repo,work work:read", "repo work"),
        ("read:repo_hook write:repo_hook", "write:repo_hook"),
        ("user gist REPO", ""),
        ("admin:repo_hook\tadmin:org_hook", "admin:org_hook admin:repo_hook"),
    ],
)
def test_unknown_and_included_scopes_are_dropped(text: str | None, expected: str) -> None:
    assert grants.requested(text) == frozenset(expected.split())


def test_a_grant_covers_its_scopes_and_the_ones_they_include() -> None:
    def covers(granted: str, asked: str, app: App = APP) -> bool:
        return grants.covers(app, frozenset(granted.split()), frozenset(asked.split()))

    assert covers("repo", "read:repo_hook")
    assert covers("", "")
    assert not covers("read:repo_hook", "write:repo_hook")
    assert not covers("", "repo")
    assert grants.merge_scopes(APP, frozenset({"work:read", "repo"}), frozenset({"work"})) == {"repo", "work"}

    app = msgspec.structs.replace(APP, kind="app", permissions={"work": "write", "repository_hooks": "read"})
    assert grants.wanted(app, frozenset()) == {"work:write", "repository_hooks:read"}
    assert covers("work:write", "work:read", app)
    assert not covers("work:read", "work:write", app)
    assert not covers("work:write", "work:write repository_hooks:read", app)


def test_every_scope_and_permission_has_words() -> None:
    from workhook.identity.policy import OAUTH_SCOPES, PERMISSIONS

    assert set(SCOPE_WORDS) == set(OAUTH_SCOPES)
    assert set(PERMISSION_WORDS) == {f"{name}:{level}" for name in PERMISSIONS for level in ("read", "write")}


def test_consent_mentions_publishing_and_the_audit_log() -> None:
    """Users must be told about every permission before they grant it."""
    from workhook.identity.policy import RULES

    told = {"repository.publish": "publish events", "organization.publish": "publish events"}
    told |= {"audit_log.read": "audit log"}
    for name, what in told.items():
        rule = RULES[name]
        assert rule.permission is not None
        given = [SCOPE_WORDS[each] for each in rule.scopes]
        given.append(PERMISSION_WORDS[":".join(rule.permission)])
        assert [words for words in given if what not in words.lower()] == [], name


def test_a_user_code_is_parsed_however_it_is_typed() -> None:
    for text in ("BCDF-GHJK", "bcdfghjk", " b c d f _ g.h—j k ", "BCDF–GHJK"):  # noqa: RUF001  # as phones autocorrect it
        assert codes.parse_user_code(text) == "BCDFGHJK"
    for text in ("", "BCDF-GHJ", "BCDF-GHJKL", "ABCD-EFGH", "BCDF-GHJ1", "ΒCDFGHJK"):  # noqa: RUF001  # a Greek letter
        assert codes.parse_user_code(text) is None
