"""Rows like those of `filled.py`, for people, organizations, projects, apps and tokens.

`few` is a member of a few of very many organizations and repositories. Each list is requested by a caller with a few
hundred rows in it, while the tables have thousands of others.
"""

from __future__ import annotations

from tests.plans.filled import AT, OFTEN_ID, OTHER_ORGANIZATION_ID, ROWS, TIMES, Fill, text_id

FEW, FEW_ORG = "few", "few-org"
FEW_ID, FEW_ORG_ID, FEW_REPOSITORY_ID = 910_001, 910_002, 910_003
PEOPLE, PLACES, OWN, ELSEWHERE, APPS, BOTS, HOOKS = (number * 1_000_000 for number in range(1, 8))
"""The first IDs of users, organizations, projects of few-org and others, apps, their accounts, and hooks of few-org."""

ALL = 2 * ROWS
LISTED = 310
"""Rows in each list: more than three pages of a hundred."""
EACH = ALL // LISTED // 2 * 2
"""Every such organization or project is one of few's. The number is even."""

_account = "INSERT INTO accounts (id, kind, login, login_key, email, created_at, updated_at) VALUES"
FIRST = (
    f"{_account} ({FEW_ID}, 'user', '{FEW}', '{FEW}', 'few@example.com', 1, 1)",
    f"{_account} ({FEW_ORG_ID}, 'organization', '{FEW_ORG}', '{FEW_ORG}', NULL, 1, 1)",
    "INSERT INTO projects (repository_id, id, account_id, name, name_key, title, private, archive, created_at,"
    f" updated_at) VALUES ({FEW_REPOSITORY_ID}, 'prj_few', {FEW_ORG_ID}, 'x', 'x', 'X', true, false, 1, 1)",
    f"INSERT INTO memberships VALUES ({FEW_ORG_ID}, {FEW_ID}, 'owner', 1)",
)

_PLACE = f"i + {PLACES}"
_PROJECT = {
    "name": "'many-' || i", "name_key": "'many-' || i", "title": "'Project ' || i", "archive": "false", **TIMES,
}  # fmt: skip
_ROLE = "CASE i % 3 WHEN 0 THEN 'read' WHEN 1 THEN 'write' ELSE 'admin' END"
_HOOK = {
    "active": "false", "events": "'[\"*\"]'", "config": "'{{\"url\":\"http://127.0.0.1/\"}}'", "version": "1", **TIMES,
}  # fmt: skip
_INVITATION = {"created_at": AT, "expires_at": "4000000000000"}


def _invitations(rows: int, inviter: int, role: str, **columns: str) -> Fill:
    given = {"inviter_id": str(inviter), "role": f"'{role}'", **columns, **_INVITATION}
    return Fill("invitations", given, rows)


def _joined(place: str, user: str, role: str, rows: int) -> Fill:
    columns = {"organization_id": place, "user_id": user, "role": role, "created_at": AT}
    return Fill("memberships", columns, rows)


_PLACES = (
    Fill("accounts", {"id": _PLACE, "kind": "'organization'", "login": "'place-' || i", "login_key": "'place-' || i",
                      **TIMES}),
    _joined(_PLACE, str(OFTEN_ID), "'owner'", ALL),
    _joined(_PLACE, f"i + {PEOPLE}", "'member'", ALL),
    _joined(f"i * {EACH} + {PLACES}", str(FEW_ID), "'member'", LISTED),
    _joined(str(FEW_ORG_ID), f"i + {PEOPLE}", "CASE WHEN i % 2 = 0 THEN 'owner' ELSE 'member' END", LISTED),
    Fill("projects", {"repository_id": f"i + {OWN}", "id": text_id("pro"), "account_id": str(FEW_ORG_ID),
                      "private": "i % 2 = 0", **_PROJECT}, LISTED),
    Fill("projects", {"repository_id": f"i + {ELSEWHERE}", "id": text_id("pre"), "private": "false",
                      "account_id": f"CASE WHEN i % 2 = 0 THEN {_PLACE} ELSE {OFTEN_ID} END", **_PROJECT}),
    Fill("collaborators", {"repository_id": f"i * 200 + 1 + {ELSEWHERE}", "user_id": str(FEW_ID), "role": "'write'",
                           "created_at": AT}, ALL // 200),
    Fill("collaborators", {"repository_id": f"i + {ELSEWHERE}", "user_id": f"i + {PEOPLE}", "role": "'write'",
                           "created_at": AT}),
    Fill("collaborators", {"repository_id": str(FEW_REPOSITORY_ID), "user_id": f"i + {PEOPLE + LISTED}",
                           "role": _ROLE, "created_at": AT}, LISTED),
)  # fmt: skip
_INVITED = (
    _invitations(ALL, OFTEN_ID, "member", account_id=_PLACE, user_id=f"i + {PEOPLE}", place=f"'o' || ({_PLACE})",
                 invitee=f"'u' || (i + {PEOPLE})"),
    _invitations(ALL, OFTEN_ID, "read", account_id="CASE WHEN i % 2 = 0 THEN " + _PLACE + f" ELSE {OFTEN_ID} END",
                 repository_id=f"i + {ELSEWHERE}", user_id=f"i + {PEOPLE}", place=f"'r' || (i + {ELSEWHERE})",
                 invitee=f"'u' || (i + {PEOPLE})"),
    _invitations(LISTED, FEW_ID, "member", account_id=str(FEW_ORG_ID), user_id=f"i + {PEOPLE + 1000}",
                 place=f"'o{FEW_ORG_ID}'", invitee=f"'u' || (i + {PEOPLE + 1000})"),
    _invitations(LISTED, FEW_ID, "read", account_id=str(FEW_ORG_ID), repository_id=str(FEW_REPOSITORY_ID),
                 user_id=f"i + {PEOPLE + 2000}", place=f"'r{FEW_REPOSITORY_ID}'",
                 invitee=f"'u' || (i + {PEOPLE + 2000})"),
    _invitations(LISTED, OFTEN_ID, "member", account_id=f"i * {EACH} + 1 + {PLACES}", user_id=str(FEW_ID),
                 place=f"'o' || (i * {EACH} + 1 + {PLACES})", invitee=f"'u{FEW_ID}'"),
    _invitations(LISTED, OFTEN_ID, "read", account_id=str(OFTEN_ID), repository_id=f"i * {EACH} + 1 + {ELSEWHERE}",
                 user_id=str(FEW_ID), place=f"'r' || (i * {EACH} + 1 + {ELSEWHERE})", invitee=f"'u{FEW_ID}'"),
)  # fmt: skip
_APPS = (
    Fill("accounts", {"id": f"i + {BOTS}", "kind": "'bot'", "login": "'bot-' || i", "login_key": "'bot-' || i",
                      **TIMES}),
    Fill("apps", {
        "id": f"i + {APPS}", "kind": "CASE WHEN i % 2 = 0 THEN 'oauth' ELSE 'app' END",
        "account_id": f"CASE WHEN i < {2 * LISTED} THEN {FEW_ORG_ID} ELSE {OTHER_ORGANIZATION_ID} END",
        "client_id": "'client-' || i", "slug": "'slug-' || i", "name": "'App ' || i", "callback_urls": "'[]'",
        "device_flow": "false", "public": "true", "permissions": "'{{}}'", "bot_id": f"i + {BOTS}", **TIMES,
    }),
    # One app is installed everywhere and one in a few organizations, and few-org has installed a few of very many.
    Fill("installations", {"id": f"i + {PLACES}", "app_id": "{everywhere}", "account_id": _PLACE,
                           "repository_selection": "'all'", "permissions": "'{{}}'", **TIMES}),
    Fill("installations", {"id": f"i + {OWN}", "app_id": "{somewhere}", "account_id": f"i * {EACH} + {PLACES}",
                           "repository_selection": "'all'", "permissions": "'{{}}'", **TIMES}, LISTED),
    Fill("installations", {"id": f"i + {APPS}", "app_id": f"i * 2 + 1 + {APPS}", "account_id": str(FEW_ORG_ID),
                           "repository_selection": "'all'", "permissions": "'{{}}'", **TIMES}, LISTED),
    Fill("tokens", {"kind": "'oauth'", "digest": "CAST('many' || i AS {bytes})", "user_id": f"i + {PEOPLE}",
                    "scopes": "'repo'", "app_id": f"i + {APPS}", "created_at": AT}),
    Fill("tokens", {"kind": "'oauth'", "digest": "CAST('few' || i AS {bytes})", "user_id": str(FEW_ID),
                    "scopes": "'repo'", "app_id": f"i * 2 + {APPS}", "created_at": AT}, LISTED),
)  # fmt: skip
_HOOKS = (
    Fill("hooks", {"id": f"i + {HOOKS}", "account_id": str(FEW_ORG_ID), "repository_id": "CAST(NULL AS BIGINT)",
                   **_HOOK}, LISTED),
    Fill("hooks", {"id": f"i + {HOOKS} + {ALL}", "account_id": str(FEW_ORG_ID), **_HOOK,
                   "repository_id": str(FEW_REPOSITORY_ID)}, LISTED),
    # Apps created a few of all the webhooks in its repositories.
    Fill("hooks", {"id": f"i + {HOOKS} + 2 * {ALL}", "account_id": str(FEW_ORG_ID),
                   "repository_id": f"i % {LISTED} + {OWN}", **_HOOK}),
    Fill("hooks", {"id": f"i + {HOOKS} + 3 * {ALL}", "account_id": str(FEW_ORG_ID), "app_id": f"i * 2 + {APPS}",
                   "repository_id": f"i % {LISTED} + {OWN}", **_HOOK}, LISTED),
)  # fmt: skip

IDENTITY = (*_PLACES, *_INVITED, *_APPS, *_HOOKS)
