"""The page for server administrators."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.server import Server
from tests.web.places_kit import age_sign_in
from tests.web.studio import HOSTILE, Studio, page_of, send, text_of
from tests.work.test_administration import change

HERE = "/settings/administration"


@pytest.fixture
def studio(server: Server, studio: Studio) -> Iterator[Studio]:
    change(server, studio.team.owner.login)
    yield studio
    change(server, studio.team.owner.login, remove=True)


def login_of(studio: Studio, name: str) -> str:
    return f"{name}-{studio.team.world.project_id[-8:].lower()}"


def test_only_administrators_can_open_the_page(studio: Studio) -> None:
    assert HERE in page_of(studio.owner, "/settings")
    assert HERE not in page_of(studio.member, "/settings")
    assert studio.member.get(HERE).status_code == 404
    for path in ("users", f"users/{studio.team.client.login}/disable", "organizations"):
        answer = send(studio.member, f"{HERE}/{path}", login="x", email="x@example.com", admin="x")
        assert answer.status_code == 404, path
    assert 'name="scope site_admin"' in page_of(studio.owner, "/settings/tokens/new")
    assert 'name="scope site_admin"' not in page_of(studio.member, "/settings/tokens/new")


def test_a_person_and_an_organization_are_added(studio: Studio) -> None:
    ada, place = login_of(studio, "ada"), login_of(studio, "studio")
    made = studio.owner.fill(HERE, f"{HERE}/users", login=ada, email=f"{ada}@example.com", name=HOSTILE)
    assert made.status_code == 200, made.text
    assert "choose a password" in text_of(made.text)
    link = made.text.split('<code id="link">')[1].split("</code>")[0]
    path = "/" + link.split("://")[1].partition("/")[2]
    assert "password" in text_of(studio.client.get(path).text).lower()
    page = page_of(studio.owner, f"{HERE}?page=1")
    assert "<img" not in page[page.index("<main") :]
    answer = studio.owner.fill(HERE, f"{HERE}/organizations", login=place, admin=ada)
    assert answer.status_code == 303
    assert place in page_of(studio.owner, HERE)
    wrong = studio.owner.fill(HERE, f"{HERE}/users", login=ada, email="nobody")
    assert wrong.status_code == 422
    assert f'value="{ada}"' in wrong.text
    wrong = studio.owner.fill(HERE, f"{HERE}/organizations", login=place, admin="nobody-here")
    assert wrong.status_code == 422
    assert 'id="place-admin-fault"' in wrong.text


def test_a_user_is_disabled_enabled_and_deleted(studio: Studio) -> None:
    login = studio.team.member.login
    at = f"{HERE}/users/{login}"
    assert send(studio.owner, f"{at}/disable").headers["location"] == HERE
    assert studio.member.get("/").status_code == 303, "the session has ended"
    assert send(studio.owner, f"{at}/enable").headers["location"] == HERE
    assert send(studio.owner, f"{at}/delete").headers["location"] == HERE
    assert f"Account {login} deleted." in page_of(studio.owner, HERE)
    own = f"{HERE}/users/{studio.team.owner.login}/disable"
    assert send(studio.owner, own).status_code == 404


def test_administration_needs_a_recent_sign_in(server: Server, studio: Studio) -> None:
    age_sign_in(server, studio.team.owner)
    assert studio.owner.get(HERE).headers["location"].startswith("/login/confirm")
