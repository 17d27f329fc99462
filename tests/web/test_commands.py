"""`workhook user …-link` and `set-password` while a server runs, and the output of the first start."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable

import pytest

from tests.harness import forge
from tests.harness.server import Server
from tests.web.browser import Browser, add_person

pytestmark = pytest.mark.one_database

NEW = "quite another string of words"


def _run(server: Server, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command with `given` as standard input, which is not a terminal."""
    return forge.run(["user", *words], server.environment(), given=given)


def test_links_and_passwords_from_the_command_line_sign_people_in(new_server: Callable[..., Server]) -> None:
    server = new_server()
    [first] = re.findall(r"sign-in link for owner, valid once and for an hour: (http\S+)\n", server.first_sign_in())
    person = add_person(server, password=None)
    with Browser(server) as browser:
        assert browser.fill(first.removeprefix(server.url)).status_code == 303
        assert "owner" in browser.get("/").text

        said = json.loads(_run(server, "sign-in-link", "--login", person.login, "--json").stdout)
        assert set(said) == {"login", "url", "purpose", "expires_at", "mailed_to"}
        assert (said["login"], said["purpose"]) == (person.login, "sign_in")
        assert browser.fill(said["url"].removeprefix(server.url)).status_code == 303
        assert person.login in browser.get("/").text

        link = _run(server, "password-link", "--login", person.login).stdout.split()[0]
        assert browser.fill(link.removeprefix(server.url), password=NEW, again=NEW).status_code == 303
        assert browser.is_signed_in()

        set_it = ("set-password", "--login", person.login, "--password-file")
        done = _run(server, *set_it, "-", given="third words in a row\nnot this\n")
        assert (done.returncode, done.stdout) == (0, f"set the password of {person.login}\n")
        in_json = _run(server, *set_it, "-", "--json", given="third words in a row\n")
        assert json.loads(in_json.stdout) == {"login": person.login, "password_set": True}
        assert not browser.is_signed_in()
        assert browser.sign_in(person, "third words in a row").status_code == 303

        file = server.data / "password"
        file.write_text("short\n")
        refused = _run(server, *set_it, str(file))
        assert (refused.returncode, refused.stderr) == (1, "workhook: The password needs at least 10 characters.\n")
        assert _run(server, "set-password", "--login", person.login).returncode == 2  # not interactive
        assert "user nobody does not exist" in _run(server, "sign-in-link", "--login", "nobody").stderr
        assert browser.is_signed_in()
