"""What the page of consent says is all that the token can do: each rule of the policy has its words there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.api.oauth_kit import Site
from tests.walls.walk import OPERATIONS
from workhook.http.operations import WORK_API
from workhook.identity.policy import RULES, SCOPES, Rule, expand
from workhook.identity.tokens.issue import APP_USER, OAUTH
from workhook.web.signin.consent import PERMISSION_WORDS, SCOPE_WORDS

pytestmark = pytest.mark.one_database

# What the words of a scope or permission have to say if it opens the rule: each of these, whatever its case.
SAID = {
    "repository_hooks.read": ["webhooks"],
    "repository_hooks.write": ["webhooks", "manage|create"],
    "repository_hooks.delete": ["webhooks", "manage|delete"],
    "organization_hooks.read": ["webhooks"],
    "organization_hooks.write": ["webhooks", "manage|create"],
    "repository.publish": ["publish events"],
    "organization.publish": ["publish events"],
    "audit_log.read": ["audit log"],
    "work.read": ["view"],
    "work.write": ["edit", "delete", "access"],
    "notifications.read": ["notifications"],
    "notifications.write": ["notifications", "mark them as read"],
}
# Likewise of what a token sees that has no scope and no permission.
SAID_WITHOUT = {
    "user": ["name", "e-mail address", "your organizations and their members"],
    "account.read": ["members", "e-mail addresses"],
    "organization.read": ["organizations", "members"],
    "organization.membership": ["members"],
    "repository.read": ["projects", "private"],
    "repository.collaborators": ["collaborators"],
}
# And of work management by what its operations are about: what is seen, and what more is told of changing it.
READ_OF_WORK = {
    "Activity": ["activity"],
    "Billing": ["billing settings"],
    "Clients": ["the people in"],
    "Columns": ["tasks"],
    "File comments": ["comments"],
    "Files": ["files"],
    "Invoices": ["invoices"],
    "Members": ["the people in"],
    "Projects": ["projects"],
    "Search": ["projects"],
    "Service Checkouts": ["subscriptions"],
    "Services": ["services"],
    "Task Comments": ["comments"],
    "Task Credits": ["credits"],
    "Tasks": ["tasks"],
    "Timesheets": ["time entries"],
    "Trash": ["trash"],
    "Users": ["organizations"],
}
CHANGED_IN_WORK = {"Members": ["add and remove people"], "Clients": ["add and remove", "clients"]}


def _opened(rule: Rule) -> Iterator[tuple[str, str]]:
    """The words of each scope and permission that lets the token of an app which acts for a user through."""
    if OAUTH.name in rule.kinds:
        yield from ((one, SCOPE_WORDS[one]) for one in SCOPES if expand(frozenset({one})) & set(rule.scopes))
    if APP_USER.name in rule.kinds and rule.permission is not None:
        name, level = rule.permission
        yield from ((f"{name}:{each}", PERMISSION_WORDS[f"{name}:{each}"]) for each in {level, "write"})


def _missing(words: str, said: list[str]) -> list[str]:
    return [each for each in said if not re.search(each, words, re.IGNORECASE)]


def _opens_without(rule: Rule) -> bool:
    return rule.target not in ("app", "client") and not rule.scopes and OAUTH.name in rule.kinds


@pytest.mark.parametrize("name", RULES)
def test_the_words_tell_whatever_the_policy_lets_an_app_do(name: str) -> None:
    opened = list(_opened(RULES[name]))
    wrong = [(one, _missing(words, SAID[name])) for one, words in opened if _missing(words, SAID[name])]
    assert wrong == []


def test_the_words_for_work_management_tell_of_everything_in_it() -> None:
    tags = {each.tag for each in OPERATIONS if each.area == WORK_API and each.access in ("work.read", "work.write")}
    assert tags == set(READ_OF_WORK)
    looking = [(SCOPE_WORDS["work:read"], READ_OF_WORK), (PERMISSION_WORDS["work:read"], READ_OF_WORK)]
    changing = {tag: READ_OF_WORK[tag] + CHANGED_IN_WORK.get(tag, []) for tag in tags}
    looking += [(SCOPE_WORDS["work"], changing), (PERMISSION_WORDS["work:write"], changing)]
    wrong = [(words, tag, _missing(words, said)) for words, all_said in looking for tag, said in all_said.items()]
    assert [each for each in wrong if each[2]] == []


@pytest.mark.parametrize("scope", ["", "read:repo_hook"])
def test_the_page_tells_what_is_seen_without_a_scope(site: Site, scope: str) -> None:
    page = site.octo.authorize(site.oauth, scope=scope)
    told = " ".join(re.sub("<[^>]+>", " ", page.text).split())
    opened = {name for name, rule in RULES.items() if _opens_without(rule)}
    assert opened == set(SAID_WITHOUT)
    assert {name: _missing(told, SAID_WITHOUT[name]) for name in opened if _missing(told, SAID_WITHOUT[name])} == {}
    assert "nothing else" not in told
    assert ("It can’t make changes." in told) == (scope == "")


def test_what_is_open_without_a_scope_changes_nothing() -> None:
    names = {name for name, rule in RULES.items() if _opens_without(rule)}
    writes = {each.name for each in OPERATIONS if each.access in names and each.method != "GET"}
    assert writes == {"graphql"}  # of which only `viewer` is answered


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("PUT", "{org}/memberships/octo", "admin:org"),
        ("GET", "{org}/invitations", "admin:org"),
        ("PATCH", "/user/memberships{org}", "admin:org"),
        ("PUT", "{repo}/collaborators/octo", "repo"),
        ("GET", "/user/repository_invitations", "repo"),
    ],
)
def test_no_app_decides_for_its_user_who_is_in_a_place(site: Site, method: str, path: str, scope: str) -> None:
    token = site.token(site.oauth, code=site.octo.code(site.oauth, scope=scope))["access_token"]
    world = site.world
    named = path.format(org=world.org_path, repo=world.repo_path)
    answer = site.http.request(method, named, headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json()["message"]) == (403, "This operation does not accept OAuth app tokens.")
