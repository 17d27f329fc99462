"""Users who left the company: `workhook user disable`, and the responses their apps get."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.oauth_kit import CALLBACK, DEVICE_GRANT, Client, Site, form_of
from tests.cli.cli_kit import Cli
from tests.harness.databases import Databases
from workhook.http.calls import Services
from workhook.identity import actions


def _set_disabled(site: Site, *, disabled: bool) -> None:
    """Disable or enable ada, who owns nothing."""

    async def turn(services: Services) -> None:
        async with services.database.transaction() as tx:
            if disabled:
                await actions.disable(tx, site.ada.user, base=site.server.url)
            else:
                await actions.enable(tx, site.ada.user)

    site.server.run(turn)


def _approved_device_code(site: Site, client: Client) -> str:
    """Return a device code that ada has approved."""
    begun = site.http.post("/login/device/code", data={"client_id": client.id}, headers={"Accept": "application/json"})
    page = site.ada.submit(site.ada.http.get("/login/device"), user_code=begun.json()["user_code"])
    assert "now has access" in site.ada.submit(page, decision="approve").text
    return str(begun.json()["device_code"])


def _check_token(site: Site, client: Client, method: str, what: str, token: str) -> int:
    """Return the status of the app's request about one of its tokens."""
    answer = site.http.request(
        method, f"/applications/{client.id}/{what}", json={"access_token": token}, auth=(client.id, client.secret)
    )
    return answer.status_code


def test_apps_of_a_disabled_user_are_suspended(site: Site) -> None:
    for client in (site.oauth, site.app):
        site.ada.http.cookies.clear()
        site.ada = site.new_browser(site.ada.user)
        pair = site.token(client, code=site.ada.code(client), redirect_uri=CALLBACK)
        code, device = site.ada.code(client), _approved_device_code(site, client)
        others = site.token(client, code=site.octo.code(client))["access_token"]
        assert _check_token(site, client, "POST", "token", pair["access_token"]) == 200
        _set_disabled(site, disabled=True)
        assert site.actor_of(pair["access_token"]) is None
        site.refused(client, "bad_verification_code", code=code)
        site.refused(client, "access_denied", grant_type=DEVICE_GRANT, device_code=device, client_secret=None)
        if "refresh_token" in pair:
            refresh = {"grant_type": "refresh_token", "refresh_token": pair["refresh_token"]}
            site.refused(client, "bad_refresh_token", **refresh)
        for method, what in (("POST", "token"), ("PATCH", "token"), ("DELETE", "token"), ("DELETE", "grant")):
            assert _check_token(site, client, method, what, pair["access_token"]) == 404, (method, what)
        page = site.ada.authorize(client)
        assert page.headers["location"].startswith("/login"), "her session has ended"
        assert site.user_of(others) == site.octo.user.login
        _set_disabled(site, disabled=False)
        assert site.actor_of(pair["access_token"]) is not None, "no refusal has revoked it"
        assert _check_token(site, client, "POST", "token", pair["access_token"]) == 200
        if "refresh_token" in pair:
            renewed = site.token(client, **refresh)
            assert site.user_of(renewed["access_token"]) == site.ada.user.login


def test_a_disabled_user_cannot_submit_the_consent_form(site: Site) -> None:
    browser = site.new_browser(site.ada.user)
    _, fields = form_of(browser.authorize(site.oauth, prompt="select_account"))
    _set_disabled(site, disabled=True)
    refused = browser.http.post("/login/oauth/authorize", data={**fields, "decision": "approve"})
    assert refused.status_code == 403
    _set_disabled(site, disabled=False)


# --- the commands ----------------------------------------------------------------------------------------------------


@pytest.fixture
def cli(backend: Databases, tmp_path: Any) -> Cli:
    data = tmp_path / "data"
    made = Cli(data, backend.new(data))
    made.setup("--project", "Website")
    made.json("user", "add", "--login", "ada", "--email", "ada@example.com")
    return made


def test_a_user_is_disabled_and_enabled(cli: Cli) -> None:
    assert [each["disabled_at"] for each in cli.json("user", "list")] == [None, None]
    done = cli.json("user", "disable", "ADA")
    assert (done["login"], done["changed"], done.keys()) == ("ada", True, {"login", "disabled_at", "changed"})
    again = cli.json("user", "disable", "ada")
    assert again == {**done, "changed": False}
    assert cli.text("user", "disable", "ada") == f"ada was already disabled, since {done['disabled_at']}\n"
    assert [each["disabled_at"] for each in cli.json("user", "list")] == [None, done["disabled_at"]]
    header, _, row = cli.text("user", "list").splitlines()
    assert header.split()[-2:] == ["disabled", "at"]
    assert row.split()[-1] == done["disabled_at"]
    assert cli.json("user", "enable", "ada") == {"login": "ada", "disabled_at": None, "changed": True}
    assert cli.text("user", "enable", "ada") == "ada was not disabled\n"
    assert cli.text("user", "disable", "ada").startswith("ada is disabled, since ")
    assert cli.text("user", "enable", "ada") == "ada is enabled\n"
    entries = [each["action"] for each in cli.json("audit", "list") if each["action"].startswith("user.")]
    assert sorted(entries)[-4:] == ["user.disable", "user.disable", "user.enable", "user.enable"]


def test_a_disabled_user_gets_no_new_links_tokens_or_organizations(cli: Cli) -> None:
    cli.json("user", "disable", "ada")
    said = "workhook: ada is disabled.\nEnable the user with `workhook user enable ada`.\n"
    for words in (
        ("user", "sign-in-link", "--login", "ada"),
        ("user", "password-link", "--login", "ada"),
        ("token", "create", "--user", "ada", "--scopes", "work"),
        ("setup", "--organization", "ada-co", "--owner", "ada"),
    ):
        assert cli.refused(*words) == said
    assert "ada-co" not in str(cli.json("audit", "list"))


def test_the_last_owner_cannot_be_disabled(cli: Cli) -> None:
    cli.json("setup", "--organization", "beta", "--owner", "octo")
    assert cli.refused("user", "disable", "octo") == (
        "workhook: octo is the last owner of acme, beta who is not disabled.\n"
        "Make someone else an owner first:\n"
        "workhook member add --organization acme --user LOGIN --role owner\n"
        "workhook member add --organization beta --user LOGIN --role owner\n"
    )
    cli.json("member", "add", "--organization", "acme", "--user", "ada", "--role", "owner")
    assert "the last owner of beta who is not disabled." in cli.refused("user", "disable", "octo")
    cli.json("member", "add", "--organization", "beta", "--user", "ada", "--role", "owner")
    cli.json("user", "disable", "octo")
    refused = cli.refused("member", "remove", "--organization", "acme", "--user", "ada")
    assert "ada is the last active owner of acme" in refused
    for words in (("user", "disable", "nobody"), ("user", "enable", "nobody")):
        assert "user nobody does not exist." in cli.refused(*words)
    assert "acme is an organization, not a user." in cli.refused("user", "disable", "acme")


def test_a_user_is_deleted(cli: Cli) -> None:
    assert "Use --yes" in cli.refused("user", "delete", "ada", status=2)
    assert "octo is the last active administrator" in cli.refused("user", "delete", "octo", "--yes")
    cli.json("user", "admin", "ada")
    assert "member add --organization acme" in cli.refused("user", "delete", "octo", "--yes")
    cli.json("user", "admin", "ada", "--remove")
    assert cli.json("user", "delete", "ADA", "--yes") == {"login": "ada", "deleted": True}
    assert "user ada does not exist." in cli.refused("user", "delete", "ada", "--yes")
    assert "user.delete" in str(cli.json("audit", "list"))


def test_a_user_becomes_an_administrator(cli: Cli) -> None:
    assert cli.json("user", "admin", "octo") == {"login": "octo", "administrator": True, "changed": False}
    assert "last active administrator" in cli.refused("user", "admin", "octo", "--remove")
    assert cli.json("user", "admin", "ada") == {"login": "ada", "administrator": True, "changed": True}
    assert cli.text("user", "admin", "octo", "--remove") == "octo is not an administrator\n"
    assert cli.text("user", "admin", "octo", "--remove") == "octo is not an administrator, as before\n"
