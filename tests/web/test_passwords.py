"""The rules for passwords."""

from __future__ import annotations

import pytest

from workhook.identity.schemas import Account
from workhook.identity.signin.passwords import COMMON_PASSWORDS, faults_of
from workhook.web.frame.cookies import csrf_of
from workhook.web.frame.sessions import Session

ADA = Account(1, "user", "ada-lovelace", "Ada Lovelace", "countess@example.com", None, 0, 0)


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery",
        "tr0ub4dor&3x",
        "!@#$%^&*()_",
        "zwölf Boxkämpfer",
        "ᚠᛇᚻ᛫ᛒᛦᚦ᛫ᚠᚱᚩᚠᚢᚱ",
        "ada-lovelace rides a bicycle",
        "x1" + "y2z" * 300,
        "          a b",
    ],
)
def test_valid_passwords_are_accepted(password: str) -> None:
    assert faults_of(password, ADA) == []


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("", "at least 10"),
        ("nine char", "at least 10"),
        ("e\u0301" * 9, "at least 10"),  # nine characters after composition
        ("x1y" * 400, "at most 1024"),
        ("password123", "too common"),
        ("PassWord-123", "too common"),
        ("correct horse battery staple", "too common"),
        ("aaaaaaaaaaaaaa", "too common"),
        ("abababababab", "too common"),
        ("12345678901", "too common"),
        ("abcdefghijklm", "too common"),
        ("98765432109", "too common"),
        ("ada-lovelace", "must not be your login"),
        ("ADA LOVELACE!!", "must not be your login"),
        ("adalovelace1", "must not be your login"),
        ("countess@example.com", "must not be your login"),
        ("countess99", "must not be your login"),
        ("Workhook2026", "must not be your login"),
        ("no\0character", "invalid character"),
        ("no\udc80character", "invalid character"),
    ],
)
def test_invalid_passwords_are_refused(password: str, said: str) -> None:
    assert any(said in each for each in faults_of(password, ADA)), faults_of(password, ADA)


def test_every_listed_common_password_would_otherwise_be_valid() -> None:
    assert [each for each in COMMON_PASSWORDS if faults_of(each, ADA) == []] == []
    assert [each for each in COMMON_PASSWORDS if each != each.casefold() or not each.isalnum()] == []


def test_the_repr_of_a_session_contains_no_secret() -> None:
    session = Session(7, ADA, csrf_of("the cookie"), 0)
    assert repr(session) == "Session(id=7, user='ada-lovelace')"
    assert "the cookie" not in session.csrf
