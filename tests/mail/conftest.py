"""A Workhook server and a mail server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.harness.databases import Databases
from tests.mail.post import Post
from tests.mail.server import MailServer
from tests.web.browser import Browser
from tests.work.studio import Studio

FROM = "Acme Studio <work@studio.example>"


@pytest.fixture(scope="module")
def mail() -> Iterator[MailServer]:
    mail = MailServer()
    yield mail
    mail.close()


@pytest.fixture
def post(backend: Databases, tmp_path: Path, mail: MailServer) -> Iterator[Post]:
    """Yield a mailer without a server."""
    folder = tmp_path / "post"
    post = Post({"data": str(folder), **backend.new(folder)}, mail.url())
    yield post
    post.close()


@pytest.fixture(scope="module")
def server_settings(mail: MailServer) -> dict[str, Any]:
    """Return settings with which the server sends through `mail`."""
    return {"smtp_url": mail.url(), "mail_from": FROM}


@pytest.fixture
def browsers() -> Iterator[ExitStack]:
    with ExitStack() as closing:
        yield closing


@pytest.fixture
def owner(studio: Studio, browsers: ExitStack) -> Browser:
    return browsers.enter_context(Browser.of(studio.server, studio.world.owner))
