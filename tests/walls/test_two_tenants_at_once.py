"""Two tenants work concurrently and try each other's IDs. Each must end up with what it would have had alone.

`make test-deep` runs more steps with random seeds. A failure message contains its seed."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.databases import Databases
from tests.harness.depth import DEEP, DEPTH, deep
from tests.harness.server import Server
from tests.walls.dump import Dump, Reader, changes
from tests.walls.left_over import left_over
from tests.walls.likeness import Likeness, differences
from tests.walls.overlap import Shared
from tests.walls.owners import rows_of
from tests.walls.said import Said
from tests.walls.tenants import Tenant
from workhook.identity.schemas import placeholder_address

WORDS = ("zqleft", "zqright")
SEEDS = [random.SystemRandom().randrange(10**6) for _ in range(3)] if DEEP else [11]
STEPS = 40 if DEPTH == "usual" else deep(120, 1500)
REFUSED = (403, 404, 409, 422)
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_WORD = re.compile(r"[a-z]{2,4}_[0-9a-z]{26}|\b1[3-6][0-9]{8}\b")


@pytest.mark.timeout(deep(600, 3600))
def test_concurrent_tenants_end_up_with_what_each_would_have_alone(backend: Databases, tmp_path: Path) -> None:
    for seed in SEEDS:
        _compare(backend, tmp_path / str(seed), seed)


@dataclass
class Outcome:
    rows: Counter[str]
    names: set[str]  # IDs of its rows
    said: list[Said]
    client: str  # the address of its acting client

    @property
    def statuses(self) -> list[tuple[str, int]]:
        return [(each.key, each.status) for each in self.said if not each.foreign]


def _run(backend: Databases, folder: Path, seed: int, words: tuple[str, ...]) -> dict[str, Outcome]:
    """Run one tenant per word, each on its own thread, on a new server that delivers nothing."""
    server = Server(folder, backend.new(folder), command=("serve", "--port", "0", "--no-worker")).start()
    reader = Reader(server)
    reader.renumber()
    shared = Shared(server)
    tenants = [Tenant(server, word, seed, shared, WORDS.index(word)) for word in words]
    shared.begin()
    before = _of_third(shared, reader.dump())
    try:
        if len(tenants) == 2:
            tenants[0].other, tenants[1].other = tenants[1], tenants[0]
        with ThreadPoolExecutor() as threads:
            for done in [threads.submit(_act, tenant) for tenant in tenants]:
                done.result()
        assert "request_failed" not in server.log(), server.log()[-5000:]
        dump = reader.dump()
        assert changes(before, _of_third(shared, dump)) == [], f"seed {seed}: where no one acts"
        assert left_over(dump) == [], f"seed {seed}"
        return {tenant.word: _outcome(tenant, dump) for tenant in tenants}
    finally:
        for tenant in tenants:
            tenant.close()
        shared.close()
        reader.close()
        server.close()


def _of_third(shared: Shared, dump: Dump) -> Dump:
    """Return the rows of the third organization, except those about its app, which both tenants change."""
    of_app = {"app_secrets", "audit_log", "authorization_codes", "grants", "refresh_tokens"}
    return {name: rows for name, rows in rows_of(dump, shared.accounts()).items() if name not in of_app}


def _act(tenant: Tenant) -> None:
    for _ in range(STEPS):
        tenant.do()


def _outcome(tenant: Tenant, dump: Dump) -> Outcome:
    likeness = Likeness(dump, tenant.accounts(), tenant.drawn())
    return Outcome(likeness.rows(), likeness.ids, tenant.said, tenant.people[2].get("/me")["user"]["email"])


def _compare(backend: Databases, folder: Path, seed: int) -> None:
    beside = _run(backend, folder / "both", seed, WORDS)
    for word, other in (WORDS, WORDS[::-1]):
        alone = _run(backend, folder / word, seed, (word,))
        found = differences(alone[word].rows, beside[word].rows)
        assert found == [], f"seed {seed}, {word}: {len(found)}\n" + "\n".join(found[:20])
        assert alone[word].statuses == beside[word].statuses, f"seed {seed}, {word}"
        for each in beside[word].said:
            told = beside[other].names & set(_WORD.findall(each.text)) - set(_WORD.findall(each.title))
            assert not told, f"seed {seed}, {word} learns of {told}: {each}"
            assert other not in each.text, f"seed {seed}, {word}: {each}"
            assert not each.by_client or _shows_no_foreign_address(each, beside[word].client), (
                f"seed {seed}, {word}: {each}"
            )
            assert not each.foreign or _is_refused(each), f"seed {seed}, {word}: {each}"


def _shows_no_foreign_address(said: Said, own: str) -> bool:
    """Return whether a client sees only its own address and placeholders."""
    return all(each == own or each.endswith(".example") for each in _ADDRESS.findall(said.body))


def _is_refused(said: Said) -> bool:
    """Return whether the request was refused, or created an invitation that reveals nothing but the given login."""
    if said.status in REFUSED:
        return True
    answer = json.loads(said.body) if said.key == "POST /projects/{}/members" else {}
    invited = answer.get("member", {})
    return answer.get("pending") is True and invited["email"] == placeholder_address(invited["login"])
