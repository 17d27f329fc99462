"""`/{owner}/settings/export`, where owners download all data of their organization."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import pytest

from tests.harness.server import Server
from tests.harness.world import World
from tests.web.browser import Browser, Person
from tests.web.places_kit import age_sign_in, owner_of
from tests.web.studio import text_of
from tests.work.test_export import TOO_LARGE_TO_BE_ON_ITS_WAY


@pytest.fixture
def person(server: Server, world: World) -> Person:
    return owner_of(server, world)


@pytest.fixture
def owner(server: Server, person: Person) -> Iterator[Browser]:
    with Browser.of(server, person.login) as browser:
        yield browser


@pytest.fixture
def path(world: World) -> str:
    return f"/{world.organization}/settings/export"


def test_the_button_downloads_an_archive(owner: Browser, world: World, path: str) -> None:
    assert f'href="{path}"' in owner.get(f"/{world.organization}/settings").text
    assert "Store it securely." in text_of(owner.get(path).text)
    answer = owner.fill(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-tar"
    assert answer.headers["content-disposition"].startswith(f'attachment; filename="{world.organization}-')
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        assert archive.getnames()[-1] == f"{world.organization}-export/manifest.json"
    entries = owner.get(f"/{world.organization}/audit").text
    assert "<code>organization.export</code>" in entries


def test_an_export_needs_a_recent_sign_in(server: Server, owner: Browser, person: Person, path: str) -> None:
    form = owner.form(path)
    age_sign_in(server, person)
    answer = owner.post(path, form.fields)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/login/confirm")


def test_a_running_export_is_reported(server: Server, owner: Browser, world: World, path: str) -> None:
    form = owner.form(path)
    large = {"file": ("large.bin", bytes(TOO_LARGE_TO_BE_ON_ITS_WAY), "application/octet-stream")}
    with server.client(world.token) as client:
        client.post(f"/api/v1/projects/{world.project_id}/files", files=large).raise_for_status()
    with (
        server.client(world.token) as client,
        client.stream("GET", f"/api/v1/organizations/{world.organization}/export"),
    ):
        answer = owner.post(path, form.fields)
        assert answer.status_code == 409
        assert f"An export of {world.organization} is already running." in text_of(answer.text)
        german = owner.client.post(
            path, data=form.fields, headers={"Origin": "null", "Sec-Fetch-Site": "same-origin", "Accept-Language": "de"}
        )
        assert f"Ein Export von {world.organization} läuft bereits." in text_of(german.text)
