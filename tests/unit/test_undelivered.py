"""The reasons for undelivered messages, derived from the replies of mail servers."""

from __future__ import annotations

import pytest

from workhook.identity.mail.recipients import ASCII_ONLY, Cause, Undelivered, explain


@pytest.mark.parametrize(
    ("said", "cause", "code"),
    [
        ("550 5.1.1 <ada@example.com>: Recipient address rejected: User unknown", "no_such_address", "550 5.1.1"),
        ("550 no such user", "no_such_address", "550"),
        ("550 5.0.0 User unknown", "no_such_address", "550 5.0.0"),
        ("553 sorry", "no_such_address", "553"),
        ("556 5.1.10 the domain takes no mail", "no_such_address", "556 5.1.10"),
        ("550 5.2.1 disabled", "closed", "550 5.2.1"),
        ("552 5.2.2 mailbox full", "full", "552 5.2.2"),
        ("552 too much", "full", "552"),
        ("552 5.3.4 too big", "too_large", "552 5.3.4"),
        ("552 5.2.3 too long", "too_large", "552 5.2.3"),
        ("554 5.7.1 host [10.0.0.1] is on a list", "refused", "554 5.7.1"),
        ("550 5.1.8 bad sender", "refused", "550 5.1.8"),
        ("550 5.7.1: Message rejected by policy", "refused", "550 5.7.1"),
        ("550 #5.1.0 Address rejected", "no_such_address", "550 5.1.0"),
        ("550 5.4.1 Recipient address rejected: Access denied", "no_such_address", "550 5.4.1"),
        ("554 no", "refused", "554"),
        ("550", "no_such_address", "550"),
        ("550 5.1.1", "no_such_address", "550 5.1.1"),
        ("550 5.1.1234 no code", "no_such_address", "550"),
        ("550-5.1.1 no", "not_delivered", ""),
        ("5500 no reply", "not_delivered", ""),
        (ASCII_ONLY, "ascii_only", ""),
        ("", "not_delivered", ""),
    ],
)
def test_a_rejection_is_explained(said: str, cause: Cause, code: str) -> None:
    assert explain(said) == Undelivered(cause, code)


@pytest.mark.parametrize(
    ("said", "cause", "code"),
    [
        ("452 4.2.2 mailbox full", "full", "452 4.2.2"),
        ("450 4.2.0 greylisted", "not_delivered", "450 4.2.0"),
        ("451 4.3.0 busy", "not_delivered", "451 4.3.0"),
        ("450 4.1.2 the domain is not found", "no_such_address", "450 4.1.2"),
        ("450 4.7.1 blocked", "refused", "450 4.7.1"),
        ("450 4.4.1 no answer from the host", "not_delivered", "450 4.4.1"),
        ("421 closing", "not_delivered", "421"),
        ("550 this sender may not", "refused", "550"),
        ("localhost:25 cannot be reached: refused", "not_delivered", ""),
        ("localhost:25 answered 550 5.1.1 no", "not_delivered", ""),
    ],
)
def test_a_temporary_failure_is_explained_after_the_last_attempt(said: str, cause: Cause, code: str) -> None:
    assert explain(said, was_tried=True) == Undelivered(cause, code)
