"""`workhook mail test`, links by mail, and what `workhook doctor` says of the mail server."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import forge
from tests.harness.databases import SqliteDatabases
from tests.mail.post import BASE, FROM, Post, nothing_waits
from tests.mail.server import MailServer


@pytest.fixture
def mail() -> Iterator[MailServer]:
    mail = MailServer()
    yield mail
    mail.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    SqliteDatabases(tmp_path).new(tmp_path / "data")
    return tmp_path / "data"


def run(data: Path, *words: str, **settings: str) -> Any:
    given = {"data": str(data), "base_url": BASE, **settings}
    plain = {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}
    return forge.run(words, {**plain, **{f"WORKHOOK_{name.upper()}": value for name, value in given.items()}})


def test_a_message_to_try_it_out(data: Path, mail: MailServer) -> None:
    done = run(data, "mail", "test", "ada@example.com", "--json", smtp_url=mail.url(), mail_from=FROM)
    assert json.loads(done.stdout) == {"address": "ada@example.com", "sent": True}
    [got] = mail.to("ada@example.com")
    assert got["Subject"] == "A test of e-mail"
    assert BASE in got.text


def test_what_goes_wrong_is_said_in_words(data: Path, mail: MailServer) -> None:
    mail.rcpt = lambda address, _: "550 5.1.1 no such user"
    refused = run(data, "mail", "test", "ada@example.com", smtp_url=mail.url(), mail_from=FROM)
    assert refused.returncode == 1
    assert "does not take mail for this address. 550 5.1.1 no such user" in refused.stderr
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    away = run(data, "mail", "test", "ada@example.com", smtp_url=f"smtp://u:s3cret@localhost:{port}", mail_from=FROM)
    assert away.returncode == 1
    assert f"localhost:{port} cannot be reached" in away.stderr
    assert "s3cret" not in away.stderr + away.stdout
    unset = run(data, "mail", "test", "ada@example.com")
    assert "no mail server is set" in unset.stderr
    nobody = run(data, "mail", "test", "ada", smtp_url=mail.url(), mail_from=FROM)
    assert "is no e-mail address" in nobody.stderr


def test_one_setting_without_the_other_is_refused(data: Path, mail: MailServer) -> None:
    for settings, said in (
        ({"smtp_url": mail.url()}, "smtp_url: needs mail_from too"),
        ({"mail_from": FROM}, "mail_from: needs smtp_url too"),
        ({"smtp_url": "smtp://u:s3cret@/", "mail_from": FROM}, "WORKHOOK_SMTP_URL: the value is not smtp://HOST"),
    ):
        done = run(data, "user", "list", **settings)
        assert done.returncode != 0
        assert said in done.stderr
        assert "s3cret" not in done.stderr


def test_a_link_goes_to_the_address_of_the_user(data: Path, mail: MailServer) -> None:
    settings = {"smtp_url": mail.url(), "mail_from": FROM}
    run(data, "user", "add", "--login", "ada", "--email", "ada@example.com")
    done = run(data, "user", "password-link", "--login", "ada", "--mail", "--json", **settings)
    made = json.loads(done.stdout)
    assert made["mailed_to"] == "ada@example.com"
    post = Post({"data": str(data)}, mail.url())
    try:
        post.deliver(nothing_waits)
    finally:
        post.close()
    [got] = mail.to("ada@example.com")
    assert made["url"] in got.text
    plain = json.loads(run(data, "user", "sign-in-link", "--login", "ada", "--json", **settings).stdout)
    assert plain["mailed_to"] is None
    unset = run(data, "user", "sign-in-link", "--login", "ada", "--mail")
    assert "no mail server is set" in unset.stderr


def test_the_doctor_looks_at_the_mail_server(data: Path, mail: MailServer) -> None:
    run(data, "user", "add", "--login", "ada", "--email", "ada@example.com")
    good = json.loads(run(data, "doctor", "--json", smtp_url=mail.url(), mail_from=FROM).stdout)
    [check] = [each for each in good["checks"] if each["name"] == "mail"]
    assert check["ok"]
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    bad = json.loads(run(data, "doctor", "--json", smtp_url=f"smtp://localhost:{port}", mail_from=FROM).stdout)
    [check] = [each for each in bad["checks"] if each["name"] == "mail"]
    assert not check["ok"]
    assert "cannot be reached" in check["detail"]
    assert all(each["name"] != "mail" for each in json.loads(run(data, "doctor", "--json").stdout)["checks"])
