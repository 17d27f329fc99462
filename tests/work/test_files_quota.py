"""The storage quota of an organization: what counts, what is refused and what still works.

File events count as well, so a file that fills the quota must leave room for a few of them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.work.paper import metric
from tests.work.studio import Studio

MIB = 2**20
PART = MIB - 64 * 1024  # Three of these fit into 3 MiB along with their events; a fourth does not.
WHOLE = 3 * PART


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """Limit each organization to 3 MiB."""
    return {"organization_max_mb": 3, "upload_max_mb": 10}


def send(studio: Studio, size: int, project: str | None = None, **more: str) -> httpx.Response:
    files = {"file": ("a.bin", b"a" * size, "application/octet-stream")}
    return studio.owner.call("POST", f"{project or studio.project}/files", files=files, headers=more)


def used(studio: Studio) -> int:
    usage: dict[str, int] = studio.owner.get(f"/organizations/{studio.world.organization}/usage")["usage"]
    return usage["bytes"]


def test_the_files_of_an_organization_share_a_quota(studio: Studio) -> None:
    """The quota covers all its projects."""
    title = {"title": "Other", "organization": studio.world.organization}
    other = f"/projects/{studio.owner.post('/projects', json=title)['project']['id']}"
    assert send(studio, 2 * PART, other).status_code == 200
    refused = send(studio, 2 * PART)
    assert (refused.status_code, refused.json()["code"]) == (413, "storage_quota")
    assert "3 MiB for files and events (organization_max_mb): 1.9 MiB are in use" in refused.json()["message"]
    assert send(studio, PART).status_code == 200
    assert send(studio, PART).status_code == 413
    assert send(studio, 0).status_code == 200
    assert metric(studio, "workhook_quota_refusals_total", quota="bytes") >= 2


def test_the_last_byte_of_the_quota_can_be_used(studio: Studio) -> None:
    """The event about the file counts too."""
    assert send(studio, 1_000_000).status_code == 200
    event = used(studio) - 1_000_000
    rest = 3 * MIB - used(studio) - event  # an event with an equally long size has the same length
    assert send(studio, rest + 1).status_code == 413
    assert send(studio, rest).status_code == 200
    assert used(studio) == 3 * MIB
    assert send(studio, 0).status_code == 413


def test_a_client_is_not_told_the_usage(studio: Studio) -> None:
    assert send(studio, WHOLE).status_code == 200
    files = {"file": ("a.bin", b"a" * PART, "application/octet-stream")}
    problem = studio.client.refused(413, "POST", f"{studio.project}/files", files=files)
    assert (problem["code"], "used" in problem["message"]) == ("storage_quota", False)


def test_deleted_files_count_and_can_be_restored(studio: Studio) -> None:
    """Deleting and restoring work even in a full organization."""
    file_id = send(studio, WHOLE).json()["file"]["id"]
    studio.owner.delete(f"/files/{file_id}")
    assert send(studio, PART).status_code == 413
    assert studio.owner.post(f"/files/{file_id}/restore")["file"]["id"] == file_id


def test_other_organizations_are_unaffected(studio: Studio, elsewhere: Studio) -> None:
    assert send(studio, WHOLE).status_code == 200
    assert send(elsewhere, WHOLE).status_code == 200


def test_concurrent_uploads_cannot_exceed_the_quota(studio: Studio) -> None:
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: send(studio, PART).status_code, range(6)))
    assert sorted(answers) == [200] * 3 + [413] * 3


def test_a_repeated_upload_is_answered_even_if_the_quota_is_full(studio: Studio) -> None:
    key = {"Idempotency-Key": "an upload"}
    first = send(studio, WHOLE, **key)
    again = send(studio, WHOLE, **key)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert send(studio, PART, **{"Idempotency-Key": "another"}).status_code == 413
