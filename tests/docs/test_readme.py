"""The README's first webhook, followed as a reader would, and its other examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.docs.pages import blocks
from tests.docs.reader import Reader
from tests.harness.receiver import Receiver

SETUP, RUN, RECEIVE, FIRST_WEBHOOK, GIT_HOOK = blocks("README.md", "sh")
[PYGITHUB] = blocks("README.md", "python")


def test_the_first_webhook_arrives(tmp_path: Path, receiver: Receiver) -> None:
    reader = Reader(tmp_path)
    try:
        reader.follow(RUN)
        reader.follow(RECEIVE)
        reader.follow(f"TOKEN={reader.token}\n")
        reader.follow(FIRST_WEBHOOK)
        assert reader.receiver is not None
        reader.receiver.wait_for("^push refs/heads/main$")
        reader.receiver.wait_for("^ping $")  # in either order

        told: dict[str, Any] = {"TOKEN": reader.token}
        # The README's own example.
        exec(reader.replaced(PYGITHUB).replace("https://example.com/in", receiver.url), told)
        [ping] = receiver.wait_for(1)
        assert ping.headers["x-service-hook-id"] == str(told["hook"].id)
        told["repository"].requester.close()

        reader.follow(SETUP)
        assert "organization: acme" in reader.said

        reader.follow("git init --quiet --bare /tmp/website.git\n")  # in the reader's folder, like everything in /tmp
        reader.follow(GIT_HOOK.replace("/srv/git/", "/tmp/"))
        assert (tmp_path / "website.git" / "hooks" / "post-receive").exists()
    finally:
        reader.close()
