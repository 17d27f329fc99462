"""Makes an organization of a checked export: everything in one commit, so that nothing is ever half there.

The bytes of files are put into the store before that. An import that dies leaves bytes without a file, which the sweep
of the store removes a day later. No event tells of what was made: it did not happen here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Invalid
from workhook.identity import actions, audit
from workhook.identity.schemas import Account
from workhook.identity.tables import accounts
from workhook.storage import Database, Transaction
from workhook.storage.blobs import Blobs
from workhook.storage.metadata import big
from workhook.work.portability.moving.kinds import KINDS, WITH_BYTES
from workhook.work.portability.moving.lines import line_type
from workhook.work.portability.moving.manifest import FILES
from workhook.work.portability.moving.newcomers import Newcomer, add_people
from workhook.work.portability.moving.reading import CheckedExport, is_plain_file, lines_of
from workhook.work.portability.moving.rows import ImportRows

Progress = Callable[[str, int, int], None]

STORED, WRITTEN = "files stored", "lines written"
_BLOCK = 1 << 20

_as_it_was = (
    sa.update(accounts)
    .where(accounts.c.id == big("account_id"))
    .values(
        email=sa.bindparam("email"), avatar=sa.bindparam("avatar"), created_at=big("created"), updated_at=big("updated")
    )
)


class ImportedOrganization(msgspec.Struct, frozen=True):
    """What an import has made, or would make. `newcomers`: people who are nobody here yet, and what they are called.
    `lines`: how many of each kind. `timers_paused`: timers that ran."""

    login: str
    organization_id: int | None
    lines: Mapping[str, int]
    files: int
    files_missing: int
    matched: Mapping[str, str]
    newcomers: list[Newcomer]
    timers_paused: int
    webhooks_off: int


class Plan(msgspec.Struct, frozen=True):
    """What is imported: as which login, and who of its people is who here."""

    checked: CheckedExport
    login: str
    matched: Mapping[str, Account]


async def import_organization(database: Database, blobs: Blobs, plan: Plan, progress: Progress) -> ImportedOrganization:
    """Raises `Invalid` for a login that cannot be had, `Unavailable`, `UniqueViolation` for lines that exclude each
    other, `ExportNotUsable` for an export that was changed meanwhile. Then nothing was written."""
    if faults := await actions.faults_of_login(database, plan.login):
        raise Invalid(faults=faults)
    stored: dict[str, str] = {}
    try:
        await _store(blobs, plan.checked, stored, progress)
        return await database.in_transaction(lambda tx: _write(tx, plan, stored, progress))
    except BaseException:
        for name in stored.values():
            await blobs.forget(name)
        raise


async def _store(blobs: Blobs, checked: CheckedExport, stored: dict[str, str], progress: Progress) -> None:
    """Put the bytes into the store; `stored` gets their names there by the old ids. What was missing stays missing."""
    total = sum(checked.count(each) for each in WITH_BYTES)
    for name in WITH_BYTES:
        for old in checked.texts[name].by_old if name in checked.texts else ():
            path = checked.folder / FILES / old
            if is_plain_file(path):
                stored[old] = await _store_one(blobs, path)
            progress(STORED, len(stored), total)


async def _store_one(blobs: Blobs, path: Path) -> str:
    async with blobs.incoming() as incoming:
        # A link that took the place of the file after it was checked is not followed.
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            while block := await asyncio.to_thread(file.read, _BLOCK):
                await incoming.write(block)
        await incoming.keep()
        return incoming.name


async def _write(tx: Transaction, plan: Plan, stored: Mapping[str, str], progress: Progress) -> ImportedOrganization:
    checked, line = plan.checked, plan.checked.organization
    place = await actions.create_account(tx, "organization", plan.login, name=line.name, email=None)
    params = {"account_id": place.id, "email": line.email, "avatar": line.avatar}
    await tx.execute(_as_it_was, {**params, "created": line.created_at, "updated": line.updated_at})
    people, newcomers = await add_people(tx, checked.people.values(), plan.matched)
    rows = ImportRows(checked, place.id, people, stored)
    await rows.reserve(tx)
    total = sum(each.lines for each in checked.manifest.lines.values())
    done = len(checked.people) + 1
    for kind in KINDS[1:]:
        for _, each in lines_of(checked.folder, f"{kind.name}.jsonl", line_type(kind)):
            await rows.add(tx, kind, each)
            done += 1
            if not done % 500:
                progress(WRITTEN, done, total)
        await rows.end(tx, kind)
    progress(WRITTEN, total, total)
    made = summary(plan, newcomers, place.id, rows.timers_paused)
    detail = {"from": checked.manifest.organization, "server": checked.manifest.server, "lines": total}
    await audit.record(tx, None, "organization.import", place.login, account_id=place.id, detail=detail)
    return made


def summary(plan: Plan, newcomers: list[Newcomer], place_id: int | None, timers: int) -> ImportedOrganization:
    checked = plan.checked
    missing = len(checked.manifest.files.missing)
    return ImportedOrganization(
        login=plan.login,
        organization_id=place_id,
        lines={name.removesuffix(".jsonl"): each.lines for name, each in checked.manifest.lines.items()},
        files=sum(checked.count(each) for each in WITH_BYTES) - missing,
        files_missing=missing,
        matched={old: account.login for old, account in plan.matched.items()},
        newcomers=newcomers,
        timers_paused=timers,
        webhooks_off=checked.count("webhooks"),
    )
