"""German messages for refused forms, and the German page for installing an app."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.harness.server import Server
from tests.web.browser import PASSWORD, Browser, add_link, add_person
from tests.web.studio import Studio
from workhook.identity.signin import sessions

pytestmark = pytest.mark.one_database


@pytest.fixture
def studio(studio: Studio) -> Studio:
    for each in (studio.owner, studio.client):
        each.client.headers["Accept-Language"] = "de-AT, de;q=0.9, en;q=0.5"
    return studio


def text_of(answer: httpx.Response) -> str:
    """Return the text of the page without markup."""
    main = answer.text.partition("<main")[2] or answer.text
    return " ".join(re.sub(r"<[^>]*>", " ", main).split())


def test_sign_in_errors_are_german(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        browser.client.headers["Accept-Language"] = "de"
        refused = browser.fill("/login", login=person.login, password="not the right one")
        assert '<html lang="de">' in refused.text
        assert "Benutzername oder Passwort ist falsch." in text_of(refused)
        assert "Dieser Link ist ungültig, abgelaufen oder wurde bereits verwendet." in text_of(
            browser.get("/login/link/gone")
        )
        path = add_link(server, person, sessions.SET_PASSWORD)
        said = text_of(browser.fill(path, password="short", again="other"))
        assert "Passwort wiederholen" in said
        assert "Die beiden Passwörter stimmen nicht überein." in said
        assert "Das Passwort muss mindestens 10 Zeichen haben." in said
        assert "password" not in said.lower()


def test_the_chosen_language_overrides_the_browser(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        browser.client.headers["Accept-Language"] = "de"
        browser.sign_in(person, PASSWORD)
        assert '<html lang="de">' in browser.get("/settings").text
        browser.fill("/settings", "/settings/appearance", language="en")
        assert '<html lang="en">' in browser.get("/settings").text


def test_errors_in_a_project_are_german(studio: Studio) -> None:
    settings = f"{studio.base}/settings"
    refused = studio.owner.fill(settings, title="x" * 256)
    assert refused.status_code == 422
    assert "„Titel“ muss 1 bis 255 Zeichen haben" in text_of(refused)
    assert "Fehler:" in refused.text
    missing = studio.owner.get(f"{studio.base}/tasks/tsk_gone")
    assert missing.status_code == 404
    assert (
        "Seite nicht gefunden Diese Seite gibt es nicht, oder Sie haben keinen Zugriff darauf. Zur Startseite"
        in text_of(missing)
    )


def test_a_refused_client_action_is_explained_in_german(studio: Studio) -> None:
    csrf = studio.client.form("/settings", "/settings/profile").fields["csrf"]
    refused = studio.client.post(f"{studio.base}/columns", {"csrf": csrf, "title": "Mine"})
    assert refused.status_code == 403
    assert "Kein Zugriff Kunden können das nicht." in text_of(refused)


def test_upload_errors_for_scripts_are_german(studio: Studio) -> None:
    """The script requests JSON and shows its messages."""
    csrf = studio.owner.form("/settings", "/settings/profile").fields["csrf"]
    sent = {"Origin": "null", "Sec-Fetch-Site": "same-origin", "Accept": "application/json"}
    files = {"file": ("a.txt", b"x", "text/plain")}
    fields = {"csrf": csrf, "folder": "fld_gone"}
    refused = studio.owner.client.post(f"{studio.base}/files", data=fields, files=files, headers=sent)
    assert refused.status_code == 422, refused.text
    assert [each["message"] for each in refused.json()["errors"]] == ["Wählen Sie einen Ordner dieses Projekts."]


def test_the_installation_page_is_german(studio: Studio) -> None:
    body = {"name": f"Roboter {studio.team.owner.id}", "permissions": {"work": "write"}}
    made = studio.api.post(f"{studio.team.world.org_path}/apps", json=body)
    assert made.is_success, made.text
    said = text_of(studio.owner.get(f"/apps/{made.json()['slug']}/installations/new"))
    assert f"{body['name']} in Acme ({studio.team.world.organization}) installieren" in said
    assert "Sie kann dann: Projekte, Aufgaben, Dateien, Kommentare, Zeiteinträge" in said
    assert "Zugriff auf Projekte Alle aktuellen und künftigen Projekte Nur ausgewählte Projekte:" in said
