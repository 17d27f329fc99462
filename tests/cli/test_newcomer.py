"""Mistakes of new users: the message names the mistake and the remedy, without a traceback or any secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.cli_kit import Cli

HUGE = str(2**63)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    cli = Cli(tmp_path_factory.mktemp("newcomer") / "data", {})
    cli.setup("--project", "Website")
    cli.json("app", "create", "--organization", "acme", "--name", "Robot", "--permissions", "work:read")
    cli.json("oauth-app", "create", "--organization", "acme", "--name", "Page", "--callback-url", "https://a.example/")
    return cli


@pytest.mark.parametrize("given", [HUGE, "0", "12x", "1.5"])
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("token", "revoke", "{}"), "ID"),
        (("deliveries", "list", "--hook", "{}"), "--hook"),
        (("deliveries", "show", "{}"), "ID"),
        (("deliveries", "redeliver", "{}"), "ID"),
        (("deliveries", "redeliver", "--hook", "{}"), "--hook"),
        (("app", "delete-secret", "robot", "{}"), "ID"),
        (("app", "delete-key", "robot", "{}"), "ID"),
        (("oauth-app", "delete-secret", "page", "{}"), "ID"),
    ],
    ids=str,
)
def test_an_id_outside_the_range_of_the_database_is_refused(
    cli: Cli, words: tuple[str, ...], named: str, given: str
) -> None:
    said = cli.refused(*(each.format(given) for each in words), status=2)
    assert f"Invalid value for '{named}': '{given}' is not an ID: a whole number from 1 to" in said


def test_the_largest_id_is_reported_as_unknown(cli: Cli) -> None:
    assert "does not exist" in cli.refused("token", "revoke", str(2**63 - 1))


@pytest.mark.parametrize("words", [("deliveries", "list", "--repository", "acme/website"), ("audit", "list")], ids=str)
def test_a_limit_outside_the_range_of_the_database_is_refused(cli: Cli, words: tuple[str, ...]) -> None:
    assert "--limit" in cli.refused(*words, "--limit", HUGE, status=2)


@pytest.mark.parametrize(
    "words",
    [
        ("user", "list"),
        ("migrate",),
        ("setup", "--organization", "acme", "--owner", "octo", "--email", "octo@example.com"),
        ("serve", "--port", "0"),
        ("worker",),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("below", ["", "below"])
def test_a_data_folder_that_is_a_file_is_refused(cli: Cli, tmp_path: Path, words: tuple[str, ...], below: str) -> None:
    file = tmp_path / "a-file"
    file.touch()
    said = cli.refused(*words, "--data", str(file / below))
    assert f"{file} is not a folder" in said
    assert "--data" in said


def test_doctor_reports_a_data_folder_that_is_a_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "a-file"
    file.touch()
    done = cli.run("doctor", "--data", str(file))
    assert (done.returncode, done.stderr) == (1, "")
    assert f"BAD  data folder: {file} is not a folder" in done.stdout
    assert "Restart the server" not in done.stdout


@pytest.mark.parametrize("words", [("oauth-app", "create"), ("app", "create", "--permissions", "work:read")], ids=str)
@pytest.mark.parametrize("url", ["https://ada:hidden@a.example/", "https://ada:hid/den@a.example/"])
def test_a_callback_url_with_a_password_is_not_repeated(cli: Cli, words: tuple[str, ...], url: str) -> None:
    said = cli.refused(*words, "--organization", "acme", "--name", "Other", "--callback-url", url)
    assert "callback_urls" in said
    assert "hid" not in said


def test_an_unknown_host_is_reported_without_error_numbers(cli: Cli) -> None:
    url = "postgresql://ada:hidden@nowhere.invalid/x"
    said = cli.refused("user", "list", "--database-url", url)
    assert "PostgreSQL at nowhere.invalid:5432: " in said
    assert "Errno" not in said
    assert "--data " not in said
