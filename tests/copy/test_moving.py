"""`workhook organization export` and `import` of an organization with rows in every table."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.cli.cli_kit import Cli
from tests.copy.exports import Lines, comparable, differences, export, members, pause
from tests.copy.filled import Filled
from tests.harness.databases import PostgresDatabases
from tests.harness.locks import nobody_writes
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import with_services
from tests.walls.dump import Dump, Reader
from workhook.http.calls import Services
from workhook.identity import actions
from workhook.storage.metadata import metadata
from workhook.work.portability.transfer.kinds import KINDS


@pytest.fixture
def cli(file: Path) -> Cli:
    return Cli(file.parent, {})


def organizations(filled: Filled) -> list[str]:
    return [row["login"] for row in filled.dump["accounts"].values() if row["kind"] == "organization"]


def server(folder: Path, postgres: PostgresDatabases | None = None) -> Cli:
    """Set up a server with an organization."""
    settings = {"database_url": postgres.new(folder)["database_url"]} if postgres else {}
    cli = Cli(folder, {**settings, "delivery_allow_networks": "127.0.0.0/8"})  # the webhooks' receivers are local
    cli.json("setup", "--organization", "elsewhere", "--owner", "here", "--email", "here@example.com")
    return cli


def add_people(cli: Cli, lines: Lines) -> None:
    """Create an account of the same login for every user in an export, unless it exists."""
    there = {each["login"] for each in cli.json("user", "list")}
    missing = [each for each in lines["people"] if each["kind"] == "user" and each["login"] not in there]

    async def add(services: Services) -> None:
        async with services.database.transaction() as tx:
            for each in missing:
                email = each["email"] or "nobody@example.com"
                await actions.create_account(tx, "user", each["login"], name=None, email=email)

    with_services(cli.settings, add)


NOT_EXPORTED = {
    "administrators": "administrators belong to a server",
    "alembic_version": "the schema of the database",
    "app_keys": "keys of apps, which stay with this server",
    "app_secrets": "secrets of apps",
    "apps": "an app's ID, keys, and installations are valid on one server only; register the app again",
    "arrivals": "requests received by test receivers",
    "audit_log": "who did what on this server; `workhook audit` exports it",
    "authorization_codes": "secrets that are valid for minutes",
    "board_filters": "what a person views; theirs, not the organization's",
    "calendar_feeds": "secret addresses of people",
    "deliveries": "the history of webhooks, kept for a time",
    "device_codes": "secrets that are valid for minutes",
    "dispatches": "what is still to be sent from here",
    "event_keys": "keys of requests, kept for a day",
    "events": "history, kept for a time; its payloads name addresses and numbers of this server",
    "grants": "authorizations of apps",
    "idempotency_keys": "keys of requests, kept for a day",
    "identities": "how people sign in here",
    "installation_repositories": "of apps",
    "installations": "of apps",
    "invitations": "their links lead to this server; invite people again",
    "key_check": "of the server's key",
    "lanes": "queues of webhooks; the import makes new ones",
    "mail_messages": "e-mail that was sent from here, or is to be",
    "mail_recipients": "languages and addresses that people have confirmed here",
    "notification_settings": "notification settings of people, not of the organization",
    "notifications": "notifications of people on this server",
    "passwords": "how people sign in here",
    "probe": "of readiness",
    "rate_windows": "limits of requests",
    "receivers": "addresses of this server",
    "redeliveries": "the history of webhooks",
    "refresh_tokens": "secrets",
    "search_credit_notes": "an index",
    "search_file_comment_replies": "an index",
    "search_file_comments": "an index",
    "search_files": "an index",
    "search_invoices": "an index",
    "search_numbers": "an index",
    "search_task_comments": "an index",
    "search_tasks": "an index",
    "sent_forms": "forms that people sent here, kept for a day",
    "sessions": "how people sign in here",
    "sign_in_failures": "how people sign in here",
    "sign_in_links": "secrets",
    "timesheet_changes": "sums, computed again from the timesheets",
    "timesheet_sums": "sums, computed again from the timesheets",
    "tokens": "secrets",
    "worker_generation": "of running processes",
    "workers": "of running processes",
}
"""Tables that are not exported, with the reasons."""


def test_every_table_is_exported_or_excluded_for_a_reason() -> None:
    exported = {each.source.name for each in KINDS}
    named = {*exported, *NOT_EXPORTED, "accounts"}
    not_ours = {each for each in NOT_EXPORTED if each.startswith("search_")} | {"alembic_version"}
    assert {each.name for each in metadata.sorted_tables} == named - not_ours
    assert not exported & NOT_EXPORTED.keys()


def test_every_column_is_exported_or_excluded() -> None:
    for kind in KINDS:
        assert kind.excluded_columns.keys() <= {each.name for each in kind.source.columns}, kind.name


@pytest.mark.variants("target")
@pytest.mark.parametrize("target", ["sqlite", "postgresql"], ids=["to a file", "to a server"])
def test_an_imported_organization_equals_the_exported_one(
    filled: Filled, cli: Cli, target: str, postgres: PostgresDatabases, tmp_path: Path
) -> None:
    other = server(tmp_path / "there", postgres if target == "postgresql" else None)
    seen = set()
    for number, login in enumerate(organizations(filled)):
        first = export(cli, tmp_path / f"first-{number}", login)
        add_people(other, first)
        made = other.json("organization", "import", str(tmp_path / f"first-{number}"), *members(first["people"]))
        logins = {each["was"]: each["login"] for each in made["newcomers"]}
        second = export(other, tmp_path / f"second-{number}", login)
        pause(first, tmp_path / f"first-{number}")
        assert differences(comparable(first, logins), comparable(second, {})) == []
        seen |= {name for name, rows in first.items() if rows}
    assert {each.name for each in KINDS} - seen == set()


@pytest.mark.whole
def test_each_command_works_in_its_own_process(tmp_path: Path) -> None:
    """Run each command in its own process, as users do."""
    here, there = server(tmp_path / "here"), server(tmp_path / "there")
    words = ("--member", "here=here", "--login", "moved")
    for cli, asked in ((here, ("export", "out")), (there, ("import", "out", *words))):
        command = [sys.executable, "-m", "workhook", "organization", *asked]
        done = subprocess.run(command, env=cli.environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "moved" in done.stdout


# --- Invalid exports -------------------------------------------------------------------------------------------------
# What an import refuses, with messages that name the file, line and field. Nothing is written then. And who may be
# imported.


Line = dict[str, Any]


class Exported:
    """The export of the organization that has rows of every kind."""

    def __init__(self, folder: Path, login: str, lines: Lines) -> None:
        self.folder, self.login, self.lines = folder, login, lines

    def owner(self) -> str:
        return str(next(each["user"] for each in self.lines["members"] if each["role"] == "owner"))


@pytest.fixture(scope="module")
def exported(filled: Filled, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("exported")
    filled.copied(folder / "data")
    cli = Cli(folder / "data", {})
    found = [Exported(folder / login, login, export(cli, folder / login, login)) for login in organizations(filled)]
    return max(found, key=lambda each: sum(map(len, each.lines.values())))


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    return server(tmp_path_factory.mktemp("there"))


@pytest.fixture
def copy(exported: Exported, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported.folder, tmp_path / "copy"))


def change(folder: Path, kind: str, edit: Callable[[list[Line]], object]) -> None:
    """Edit the lines of a file and update its checksum in the manifest, as a user who edits an export by hand would."""
    path = folder / f"{kind}.jsonl"
    rows = [json.loads(each) for each in path.read_bytes().splitlines()]
    edit(rows)
    data = b"".join(json.dumps(each).encode() + b"\n" for each in rows)
    path.write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["lines"][path.name] = {"lines": len(rows), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def dump(cli: Cli) -> Dump:
    reader = Reader(Server(cli.data, {}))
    try:
        return reader.dump()
    finally:
        reader.close()


def put(name: str, value: Any, at: int = 0) -> Callable[[list[Line]], object]:
    return lambda rows: rows[at].update({name: value})


def _user(rows: list[Line]) -> Line:
    return next(each for each in rows if each["kind"] == "user")


def _sent(rows: list[Line]) -> Line:
    return next(each for each in rows if each["status"] == "sent" and each["taxes"])


def _twice(rows: list[Line], name: str) -> None:
    """Give two lines the same value of `name`."""
    one, other = [each for each in rows if each[name] is not None and each.get("deleted_at") is None][:2]
    other[name] = one[name]


def _retax(note: Line, millionths: int) -> None:
    for each in note["taxes"]:
        each[0] = millionths


def _move_to_base(rows: list[Line]) -> None:
    """Credit more net amount than was billed at a rate. The sums are consistent, but the tax is negative."""
    first = rows[0]["taxes"][0]
    first[2], first[3] = first[2] + 10**9, first[3] - 10**9
    rows[0]["amount_minor"] += 10**9


def put_item(at: int, value: Any) -> Callable[[list[Line]], object]:
    """Return an edit that sets a value in the first line of the first invoice that has one."""

    def edit(rows: list[Line]) -> None:
        next(each for each in rows if each["items"])["items"][0][at] = value

    return edit


def put_config(**more: Any) -> Callable[[list[Line]], object]:
    return lambda rows: rows[0]["config"].update(more)


@pytest.mark.parametrize(
    ("kind", "edit", "words"),
    [
        (
            "invoices",
            lambda rows: _sent(rows).update(total_minor=1),
            "total_minor: its lines, discounts, and taxes add up to",
        ),
        (
            "invoices",
            lambda rows: _sent(rows).update(amount_minor=1),
            "amount_minor: its lines and discounts add up to",
        ),
        ("invoices", lambda rows: _sent(rows).update(taxes=[]), "taxes: they do not match its lines"),
        ("invoices", lambda rows: _sent(rows).update(discount_minor=10**14), "discount_minor: it is more than the sum"),
        (
            "invoices",
            lambda rows: _sent(rows).update(currency="JPY", total_minor=1),
            "total_minor: its lines, discounts, and taxes add up to",
        ),
        ("credit_notes", put("amount_minor", 1), "credit_notes.jsonl, line 1, amount_minor: it is not the sum"),
        (
            "credit_notes",
            lambda rows: _retax(rows[0], 42_000),
            "taxes: they credit a rate that the invoice does not have",
        ),
        ("credit_notes", _move_to_base, "taxes: they credit more at a rate than the invoice has"),
        ("invoices", lambda rows: _twice(rows, "invoice_number"), "already occurs in line"),
        ("projects", lambda rows: _twice(rows, "name"), "already occurs in line"),
        ("members", lambda rows: rows.append(rows[0]), "already occurs in line 1"),
        ("invoice_numbers", lambda rows: rows.append(rows[0]), "line 2, there can be only one line"),
        *(
            ("invoices", put_item(1, qty), "items: item 1: its quantity must be")
            for qty in ("1e999999999", "NaN", "-1")
        ),
        ("invoices", put_item(2, 10**16), "items: item 1, unit_price_minor: it must be from 0"),
        ("invoices", put_item(1, 7), "items: item 1: Expected `str`, got `int`"),
        ("invoices", put("taxes", [[19 * 10**10, "standard", 1, 1]]), "invoices.jsonl, line 1, taxes: it must be"),
        ("invoices", put("total_minor", 10**17), "invoices.jsonl, line 1, total_minor: it must be from"),
        ("invoices", put("issued", 9 * 10**18), "invoices.jsonl, line 1, issued: it must be a time from 1970"),
        ("tasks", put("created_at", 9 * 10**18), "tasks.jsonl, line 1, created_at: it must be a time from 1970"),
        ("tasks", put("created_at", -1), "tasks.jsonl, line 1, created_at: it must be a time from 1970"),
        ("invoices", put("currency", "ZZZ"), "invoices.jsonl, line 1, currency: it must be an ISO 4217 currency code"),
        ("organization_billing", put("timezone", "Europe/Atlantis"), "timezone: it must be the name of a time zone"),
        (
            "invoices",
            lambda rows: _sent(rows)["seller"].update(timezone="Europe/Atlantis"),
            "seller: timezone: it must be the name of a time zone",
        ),
        ("organization_billing", put("tax_number", "1\n2"), "tax_number: it must be a tax number as the tax office"),
        ("organization_billing", put("tax_number", "1" * 65), "tax_number: Expected `str` of length <= 64"),
        (
            "invoices",
            lambda rows: _sent(rows)["seller"].update(tax_number="--"),
            "seller: tax_number: it must be a tax number",
        ),
        ("timesheets", put("duration_ms", 10**18), "timesheets.jsonl, line 1, duration_ms: it must be from 0"),
        ("organization_billing", put("language", "xx"), "language: Invalid enum value 'xx'"),
        ("people", put("kind", "organization"), "people.jsonl, line 1: kind: Invalid enum value 'organization'"),
        ("people", lambda rows: _user(rows).update(login="a/b"), "login: it must be 1 to 39 letters"),
        ("organization", put("login", "a/b"), "organization.jsonl, line 1, login: it must be 1 to 39 letters"),
        ("tasks", put("title", "x" * 300), "tasks.jsonl, line 1, title: Expected `str` of length <= 255"),
        ("projects", put("title", "x" * 100_000), "projects.jsonl, line 1, title: Expected `str` of length <= 255"),
        ("tasks", put("description", "x" * 70_000), "tasks.jsonl, line 1, description: it must be at most 64 KiB"),
        ("tasks", put("labels", ["x" * 300]), "tasks.jsonl, line 1, labels: Expected `str` of length <= 255"),
        ("tasks", put("labels", ["x"] * 101), "tasks.jsonl, line 1, labels: Expected `array` of length <= 100"),
        ("tasks", put("labels", [" "]), "tasks.jsonl, line 1, labels: Expected `str` matching regex"),
        ("tasks", put("fields", {str(at): "x" for at in range(101)}), "line 1, fields: Expected `object` of length <="),
        ("tasks", put("fields", {"x": "x" * 2**20}), "tasks.jsonl, line 1, fields: it is longer than 1 MiB"),
        ("tasks", put("sections", {"x": {"y": "x" * 2**20}}), "tasks.jsonl, line 1, sections: it is longer than 1 MiB"),
        (
            "tasks",
            put("sections", {"a": dict.fromkeys(map(str, range(101)), "")}),
            "line 1, sections: Expected `object`",
        ),
        ("import_links", put("external_id", "x" * 2000), "line 1, external_id: it is longer than 1024 bytes"),
        ("unmatched_assignees", put("full_name", "x" * 300), "line 1, full_name: Expected `str` of length <= 255"),
        (
            "unmatched_assignees",
            put("source", "jira"),
            "line 1, source: it must be one of trello, asana, github, csv",
        ),
        ("projects", put("label_colors", {"x": "crimson"}), "line 1: label_colors[...]: Invalid enum value 'crimson'"),
        ("projects", put("name", "../x"), "projects.jsonl, line 1, name: it must be 1 to 100 characters from"),
        ("projects", put("avatar", "javascript:alert(1)"), "projects.jsonl, line 1, avatar: it must be an http"),
        ("organization", put("avatar", "javascript:alert(1)"), "organization.jsonl, line 1, avatar: it must be"),
        ("webhooks", put_config(url="file:///etc/passwd"), "line 1, config: url: it must be an http or https URL"),
        ("webhooks", put_config(secret="s3cret"), "config: secret: it cannot be in an export"),
        ("webhooks", put_config(password="s3cret"), "config: password: it cannot be in an export"),
        ("file_comment_replies", put("body", "<img src=x onerror=alert(1)>"), "body: it has markup that the API"),
        ("tasks", put("title", 7), "tasks.jsonl, line 1: title: Expected `str`, got `int`"),
        ("tasks", put("surprise", 1), "tasks.jsonl, line 1: Object contains unknown field `surprise`"),
        ("tasks", lambda rows: rows[0].pop("title"), "missing required field `title`"),
        (
            "tasks",
            put("column_id", "col_00000000000000000000000000"),
            "tasks.jsonl, line 1, column_id: col_",
        ),
        ("tasks", put("user", "who"), "tasks.jsonl, line 1, user: who does not exist in people.jsonl"),
        ("tasks", put("id", "tsk_1"), "tasks.jsonl, line 1: id:"),
        ("tasks", put("title", "a\0b"), "tasks.jsonl, line 1: it has the character NUL"),
        ("tasks", lambda rows: rows.append(rows[0]), "id: tsk_"),
        ("people", lambda rows: rows.append({**rows[0], "login": rows[0]["login"].upper()}), "occurs more than once"),
        ("members", put("role", "emperor"), "members.jsonl, line 1: role: Invalid enum value 'emperor'"),
        ("invoices", put("status", "stolen"), "invoices.jsonl, line 1: status: Invalid enum value 'stolen'"),
        (
            "invoices",
            lambda rows: _sent(rows).update(status="paid"),
            "status: must be sent, given its payments and credit notes",
        ),
        (
            "payments",
            lambda rows: rows[0].update(amount_minor=rows[0]["amount_minor"] + 1),
            "paid_minor: it is not the sum",
        ),
        ("credit_notes", lambda rows: rows.clear(), "credited_minor: it is not the sum of its credit notes"),
        ("task_buckets", lambda rows: rows.pop(), "does not exist in task_buckets.jsonl"),
        ("timesheets", put("duration_ms", 2**70), "timesheets.jsonl, line 1: duration_ms:"),
        ("organization", lambda rows: rows.clear(), "organization.jsonl contains no organization"),
        (
            "organization_billing",
            put("number_format", "{number!r}{0.__class__}"),
            "organization_billing.jsonl, line 1, number_format: it must be text with {number} once",
        ),
        ("organization_billing", put("number_format", "INV"), "number_format: it must be text with {number} once"),
        (
            "organization_billing",
            put("iban", "DE89370400440532013001"),
            "iban: it must be an IBAN with correct check digits",
        ),
        ("organization_billing", put("iban", "de89 3704 0044 0532 0130 00"), "iban: it must be"),
        ("organization_billing", put("vat_id", "DE1"), "vat_id: it must be a VAT ID"),
        ("project_billing", put("buyer_vat_id", "DE1"), "buyer_vat_id: it must be a VAT ID"),
        ("invoices", lambda rows: _sent(rows)["seller"].update(iban="XX00"), "seller: iban: it must be an IBAN"),
        ("tasks", put("repeat", "FREQ=DAILY;EVIL"), "tasks.jsonl, line 1, repeat: it must be"),
        ("tasks", put("repeat", "FREQ=SECONDLY"), "tasks.jsonl, line 1, repeat: it must be"),
        ("files", put("name", "a\r\nSet-Cookie: a=b"), "files.jsonl, line 1, name: it must be the name of a file"),
        ("files", put("name", "../../x"), "files.jsonl, line 1, name: it must be the name of a file"),
        ("files", put("content_type", "text/html\r\nX: y"), "files.jsonl, line 1, content_type: it must be a media"),
        ("billing_logos", put("content_type", "image/png\r\nX: y"), "content_type: it must be a media type"),
        ("files", put("sha256", "x"), "files.jsonl, line 1, sha256: it must be 64 hexadecimal digits"),
        ("webhooks", put_config(url="http://169.254.169.254/latest"), "webhooks.jsonl, line 1, config: "),
        ("webhooks", put_config(url="http://10.0.0.7:6379/"), "webhooks.jsonl, line 1, config: "),
        ("webhooks", put("events", ["order.paid"]), "webhooks.jsonl, line 1, events: unknown event"),
        ("task_comments", put("text", "x" * 100_000), "task_comments.jsonl, line 1, text: "),
        ("service_checkouts", put("qty", 10**12), "service_checkouts.jsonl, line 1, qty: it must be"),
        ("payments", put("reference", "x" * 1000), "payments.jsonl, line 1, reference: it must be"),
        ("tasks", put("fields", {"x": ["y"]}), "tasks.jsonl, line 1: fields"),
    ],
)
def test_an_invalid_line_is_reported_and_nothing_is_written(
    exported: Exported, copy: Path, there: Cli, kind: str, edit: Callable[[list[Line]], object], words: str
) -> None:
    change(copy, kind, edit)
    before = dump(there)
    said = there.refused("organization", "import", str(copy), "--member", f"{exported.owner()}=here")
    assert words in said
    assert "Nothing was imported." in said
    assert dump(there) == before


def test_two_invoices_with_one_number_are_found_before_anything_is_written(
    exported: Exported, copy: Path, there: Cli
) -> None:
    change(copy, "invoices", lambda rows: _twice(rows, "invoice_number"))
    words = ("organization", "import", str(copy), "--member", f"{exported.owner()}=here")
    asked, done = there.refused(*words, "--dry-run"), there.refused(*words)
    assert asked == done
    assert re.search(r"invoices\.jsonl, line \d+, invoice_number: .* already occurs in line \d+", asked)


def test_an_export_that_does_not_match_its_manifest_is_refused(exported: Exported, copy: Path, there: Cli) -> None:
    owner = ("--member", f"{exported.owner()}=here")
    with (copy / "tasks.jsonl").open("ab") as file:
        file.write(b"\n")
    assert "tasks.jsonl does not match the manifest" in there.refused("organization", "import", str(copy), *owner)
    (copy / "tasks.jsonl").unlink()
    assert "tasks.jsonl is missing" in there.refused("organization", "import", str(copy), *owner)
    (copy / "manifest.json").unlink()
    assert "this is not an export, or it was interrupted" in there.refused("organization", "import", str(copy), *owner)


def test_a_file_with_changed_content_is_refused(exported: Exported, copy: Path, there: Cli) -> None:
    owner = ("--member", f"{exported.owner()}=here")
    one, other = sorted((copy / "files").iterdir())[:2]
    one.write_bytes(b"something else")
    assert "does not match the line" in there.refused("organization", "import", str(copy), *owner)
    shutil.copy(exported.folder / "files" / one.name, one)
    other.unlink()
    assert f"files/{other.name} is missing" in there.refused("organization", "import", str(copy), *owner)


@pytest.mark.parametrize("at_ms", [10**18, -(10**18), -1, 4 * 10**12])
def test_an_export_of_the_far_future_or_past_is_refused(exported: Exported, copy: Path, there: Cli, at_ms: int) -> None:
    manifest = json.loads((copy / "manifest.json").read_bytes())
    (copy / "manifest.json").write_text(json.dumps({**manifest, "exported_at": at_ms}))
    said = there.refused("organization", "import", str(copy), "--member", f"{exported.owner()}=here")
    assert "exported_at: it " in said


@pytest.mark.parametrize("name", ["manifest.json", "tasks.jsonl", "files"])
def test_a_symbolic_link_in_an_export_is_not_followed(exported: Exported, copy: Path, there: Cli, name: str) -> None:
    target = next((copy / "files").iterdir()) if name == "files" else copy / name
    elsewhere = copy.parent / "elsewhere"
    target.rename(elsewhere)
    target.symlink_to(elsewhere)
    before = dump(there)
    said = there.refused("organization", "import", str(copy), "--member", f"{exported.owner()}=here")
    assert "link" in said or "not a regular file" in said or "there is no" in said
    assert dump(there) == before


def test_a_line_with_too_many_values_is_refused(exported: Exported, copy: Path, there: Cli) -> None:
    change(copy, "tasks", put("labels", [""] * 1_000_001))
    said = there.refused("organization", "import", str(copy), "--member", f"{exported.owner()}=here")
    assert "tasks.jsonl, line 1: it has more than 1,000,000 values" in said


def test_a_newer_format_is_refused(exported: Exported, copy: Path, there: Cli) -> None:
    manifest = json.loads((copy / "manifest.json").read_bytes())
    (copy / "manifest.json").write_text(json.dumps({**manifest, "format_version": 2}))
    said = there.refused("organization", "import", str(copy), "--member", f"{exported.owner()}=here")
    assert "import it with a newer version" in said


def test_an_import_needs_an_owner(exported: Exported, there: Cli) -> None:
    said = there.refused("organization", "import", str(exported.folder), status=2)
    assert "the organization would have no owner" in said
    assert exported.owner() in said
    said = there.refused("organization", "import", str(exported.folder), "--member", "nobody-there=here", status=2)
    assert "the export has no person nobody-there" in said


def test_a_taken_login_is_refused(exported: Exported, there: Cli) -> None:
    words = ("organization", "import", str(exported.folder), "--member", f"{exported.owner()}=here")
    before = dump(there)
    for more in ((), ("--dry-run",)):
        said = there.refused(*words, "--login", "elsewhere", *more)
        assert "login elsewhere is taken" in said
        assert "Use --login" in said
    assert dump(there) == before


def test_an_import_that_the_database_rejects_leaves_nothing(exported: Exported, tmp_path: Path) -> None:
    """The transaction that would have written everything is rolled back."""
    there = server(tmp_path / "there")
    with closing(sqlite3.connect(there.data / "workhook.db")) as database, database:
        refuse = "SELECT RAISE(ABORT, 'no time today')"
        database.execute(f"CREATE TRIGGER refuse BEFORE INSERT ON timesheets BEGIN {refuse}; END")
    before = dump(there)
    words = ("organization", "import", str(exported.folder), "--login", "twice")
    said = there.refused(*words, "--member", f"{exported.owner()}=here")
    assert "the database rejects the export: no time today" in said
    assert "Traceback" not in said
    assert dump(there) == before
    assert not [each for each in (there.data / "files").rglob("*") if each.is_file()]


@pytest.mark.whole
def test_people_without_an_account_cannot_sign_in_and_keep_their_work(exported: Exported, tmp_path: Path) -> None:
    there = server(tmp_path / "there")
    words = ("organization", "import", str(exported.folder), "--login", "moved", "--member", f"{exported.owner()}=here")
    before = dump(there)
    would = there.json(*words, "--dry-run")
    assert dump(there) == before
    made = there.json(*words)
    assert {**made, "organization_id": None, "dry_run": True} == would
    users = {each["login"]: each for each in there.json("user", "list")}
    new = [each for each in made["newcomers"] if each["kind"] == "user"]
    assert new
    for each in new:
        assert users[each["login"]]["disabled_at"] is not None
        assert users[each["login"]]["email"] is None
        there.refused("token", "create", "--user", each["login"], "--kind", "classic", "--scopes", "work")
    again = export(there, tmp_path / "again", "moved")
    assert {each["login"]: each["name"] for each in again["people"] if each["login"] != "here"} == {
        each["login"]: person["name"]
        for each in made["newcomers"]
        for person in exported.lines["people"]
        if person["login"] == each["was"]
    }
    assert [each["id"] for each in again["tasks"]] != [each["id"] for each in exported.lines["tasks"]]


@pytest.fixture
def moved(exported: Exported, tmp_path: Path) -> Iterator[httpx.Client]:
    """Yield a client for the owner of the imported organization."""
    there = server(tmp_path / "there")
    add_people(there, exported.lines)
    there.json("organization", "import", str(exported.folder), *members(exported.lines["people"]))
    words = ("token", "create", "--user", exported.owner(), "--kind", "classic", "--scopes", "work,repo")
    running = Server(there.data, {}).start()
    try:
        with running.client(there.json(*words)["token"]) as client:
            client.base_url = client.base_url.join("/api/v1/")
            yield client
    finally:
        running.close()


@pytest.mark.whole
def test_numbers_continue_after_an_import(exported: Exported, moved: httpx.Client) -> None:
    taken = {each["invoice_number"] for each in exported.lines["invoices"]}
    last = {each["last"] for each in exported.lines["task_numbers"]}
    project, column = next(
        (each["id"], columns[0]["id"])
        for each in moved.get("projects").json()["projects"]
        if (columns := moved.get(f"projects/{each['id']}/columns").json()["columns"])
    )
    task = moved.post(f"columns/{column}/tasks", json={"title": "Next"}).json()["task"]
    assert task["number"] - 1 in last
    body = {"invoice_items": [{"description": "Work", "qty": 1, "unit_price": 1}]}
    invoice = moved.post(f"projects/{project}/invoices", json=body).json()["invoice"]
    sent = moved.post(f"invoices/{invoice['id']}/send").json()["invoice"]
    assert sent["invoice_number"] not in taken


@pytest.mark.whole
def test_files_invoices_and_time_entries_can_be_read_after_an_import(exported: Exported, moved: httpx.Client) -> None:
    sums = {each["sha256"] for each in exported.lines["files"] if each["deleted_at"] is None}
    files = moved.get("files", params={"per_page": 100}).json()["files"]
    assert {hashlib.sha256(moved.get(f"files/{each['id']}/content").content).hexdigest() for each in files} <= sums
    assert files
    listed = moved.get("invoices", params={"per_page": 100}).json()["invoices"]
    assert {each["invoice_number"] for each in listed} == {
        each["invoice_number"] for each in exported.lines["invoices"]
    }
    for each in listed:
        if each["status"] not in ("draft", "void"):
            sums_hold = (
                each["total"] + each["to_refund"],
                each["amount_paid"] + each["amount_credited"] + each["amount_due"],
            )
            assert sums_hold[0] == pytest.approx(sums_hold[1])
            assert moved.get(f"invoices/{each['id']}/pdf").content.startswith(b"%PDF")
    assert moved.get("timesheets", params={"per_page": 100}).status_code == 200


def test_an_export_contains_nothing_of_other_organizations(filled: Filled, tmp_path: Path) -> None:
    """Organizations share people, but whatever these have written elsewhere is not exported."""
    filled.copied(tmp_path / "data")
    cli = Cli(tmp_path / "data", {})
    exports = {login: export(cli, tmp_path / login, login) for login in organizations(filled)}
    names = {login: {each["title"] for each in lines["projects"]} for login, lines in exports.items()}
    ids = {login: {each["id"] for each in lines["projects"]} for login, lines in exports.items()}
    for login, lines in exports.items():
        text = json.dumps(lines)
        for other in exports.keys() - {login}:
            assert not [each for each in ids[other] if each in text], (login, other)
            assert not [each for each in names[other] - names[login] if json.dumps(each) in text], (login, other)
    assert len(exports) > 1
    assert {each.name for each in KINDS} <= exports[login].keys()


# --- Killed imports --------------------------------------------------------------------------------------------------
# An import that is killed while it writes leaves no rows and can be run again.


IsWriting = Callable[[], bool]

# An import reaches this trigger with its organization, people, projects and tasks written, and then never ends.
_STUCK = """CREATE TRIGGER stuck BEFORE INSERT ON timesheets BEGIN
    SELECT count(*) FROM (WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more) SELECT n FROM more);
END"""


@contextmanager
def stuck_on_sqlite(data: Path) -> Iterator[IsWriting]:
    """Make an import hang when it writes time entries. It is in its transaction while no other connection can write."""

    def is_writing() -> bool:
        with closing(sqlite3.connect(data / "workhook.db", isolation_level=None, timeout=0)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            return False

    with closing(sqlite3.connect(data / "workhook.db", isolation_level=None)) as database:
        database.execute(_STUCK)
        yield is_writing
        database.execute("DROP TRIGGER stuck")


@contextmanager
def stuck_on_postgres(data: Path, url: str) -> Iterator[IsWriting]:
    """Make an import wait for a lock when it writes time entries. Its earlier writes are in its transaction."""
    waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'timesheets'::regclass AND NOT granted)"
    with asyncio.Runner() as runner, nobody_writes(data, url, "timesheets"):
        connection = runner.run(asyncpg.connect(url))
        yield lambda: bool(runner.run(connection.fetchval(waiting)))
        runner.run(connection.close())


def dump_with_settings(cli: Cli, settings: dict[str, str]) -> Dump:
    reader = Reader(Server(cli.data, settings))
    try:
        return reader.dump()
    finally:
        reader.close()


def kill_while_writing(cli: Cli, words: list[str], stuck: AbstractContextManager[IsWriting]) -> None:
    with stuck as is_writing:
        command = [sys.executable, "-m", "workhook", *words]
        with subprocess.Popen(
            command, env=cli.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            try:
                until(lambda: is_writing() or process.poll() is not None)
                assert process.poll() is None, process.stdout and process.stdout.read()
            finally:
                process.kill()


@pytest.mark.variants("target")
@pytest.mark.parametrize("target", ["sqlite", "postgresql"], ids=["to a file", "to a server"])
def test_a_killed_import_leaves_no_rows(
    filled: Filled, target: str, postgres: PostgresDatabases, tmp_path: Path
) -> None:
    filled.copied(tmp_path / "data")
    here = Cli(tmp_path / "data", {})
    exports = {login: export(here, tmp_path / login, login) for login in organizations(filled)}
    login, lines = max(exports.items(), key=lambda each: len(each[1]["timesheets"]))
    settings = {"database_url": postgres.new(tmp_path / "there")["database_url"]} if target == "postgresql" else {}
    there = Cli(tmp_path / "there", settings)
    there.json("setup", "--organization", "elsewhere", "--owner", "here", "--email", "here@example.com")
    add_people(there, lines)
    before = dump_with_settings(there, settings)
    words = [
        "organization",
        "import",
        str(tmp_path / login),
        "--allow-network",
        "127.0.0.0/8",
        *members(lines["people"]),
    ]
    stuck = stuck_on_postgres(there.data, settings["database_url"]) if settings else stuck_on_sqlite(there.data)
    kill_while_writing(there, words, stuck)
    until(lambda: dump_with_settings(there, settings) == before)
    made = there.json(*words)
    assert_same(lines, export(there, tmp_path / "again", login), tmp_path / login, made["newcomers"])


def assert_same(first: Lines, second: Lines, folder: Path, newcomers: list[dict[str, str]]) -> None:
    """Assert that the imported organization equals the exported one."""
    pause(first, folder)
    logins = {each["was"]: each["login"] for each in newcomers}
    assert differences(comparable(first, logins), comparable(second, {})) == []
