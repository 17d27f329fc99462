"""Reads of tokens by whom they stand for."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.identity.apps.tables import apps
from workhook.identity.queries import repositories, repository_of
from workhook.identity.schemas import Repository
from workhook.identity.tables import accounts, projects, tokens
from workhook.identity.tokens.kinds import APP_USER, CLASSIC, FINE_GRAINED
from workhook.identity.tokens.schemas import Details, TokenApp, TokenPermissions
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big

_places = accounts.alias("places")
_NAMES = (
    "id", "kind", "user_id", "note", "scopes", "permissions", "repositories", "created_at", "expires_at",
    "last_used_at", "revoked_at", "family", "parent_id",
)  # fmt: skip
# What it may do beside its scopes, at most: an app's user has no more than the app asks for.
_of_app = sa.and_(tokens.c.kind == APP_USER.name, tokens.c.permissions.is_(None))
_allowed = sa.case((_of_app, apps.c.permissions), else_=tokens.c.permissions).label("allowed")
_tokens = (
    sa.select(
        *(tokens.c[name] for name in _NAMES),
        _allowed,
        accounts.c.login.label("user_login"),
        _places.c.login.label("place_login"),
        *(apps.c[name].label(f"app_{name}") for name in TokenApp.__struct_fields__),
    )
    .join_from(tokens, accounts, accounts.c.id == tokens.c.user_id)
    .outerjoin(_places, _places.c.id == tokens.c.account_id)
    .outerjoin(apps, apps.c.id == tokens.c.app_id)
)
_every = _tokens.order_by(tokens.c.id)
_every_of = _every.where(tokens.c.user_id == big("user_id"))
_one = _tokens.where(tokens.c.id == big("token_id"))
_mine = (
    tokens.c.user_id == big("user_id"),
    tokens.c.revoked_at.is_(None),
    sa.or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > big("now")),
)
_my_one = _one.where(*_mine)
_my_some = _tokens.where(any_of(tokens.c.id, "token_ids"), *_mine).order_by(tokens.c.id.desc())
_my_powers = (
    sa.select(tokens.c.id, tokens.c.scopes, _allowed)
    .outerjoin_from(tokens, apps, apps.c.id == tokens.c.app_id)
    .where(*_mine)
    .order_by(tokens.c.id.desc())
)
_personal = sa.or_(tokens.c.kind == CLASSIC.name, tokens.c.kind == FINE_GRAINED.name)
_count_personal = sa.select(sa.func.count().label("total")).where(_personal, *_mine)
_take_turn = sa.select(accounts.c.id).where(accounts.c.id == big("user_id")).with_for_update(key_share=True)
_kept_living = sa.select(tokens.c.id).where(tokens.c.id == big("token_id"), tokens.c.revoked_at.is_(None))
_kept_living = _kept_living.with_for_update(read=True)
_named = repositories.where(
    projects.c.account_id == big("account_id"), any_of(projects.c.name_key, "name_keys")
).order_by(projects.c.repository_id)
_by_id = repositories.where(any_of(projects.c.repository_id, "repository_ids"))


async def permissions_of_tokens(reader: Reader, user_id: int) -> list[TokenPermissions]:
    """Of each token that stands for the user and is good, newest first."""
    rows = await reader.fetch_all(_my_powers, {"user_id": user_id, "now": now_ms()})
    return [_powers(row) for row in rows]


async def some_of(reader: Reader, user_id: int, token_ids: Collection[int]) -> list[Details]:
    """Those of the tokens that stand for the user and are good, newest first."""
    params = {"user_id": user_id, "token_ids": list(token_ids), "now": now_ms()}
    return await _with_names(reader, await reader.fetch_all(_my_some, params), user_id)


async def find_of(reader: Reader, user_id: int, token_id: int) -> Details | None:
    """A token that stands for the user and is good."""
    rows = await reader.fetch_all(_my_one, {"user_id": user_id, "token_id": token_id, "now": now_ms()})
    found = await _with_names(reader, rows, user_id)
    return found[0] if found else None


async def count_living(tx: Transaction, user_id: int) -> int:
    """How many personal tokens of the user are good. Until the transaction ends nobody else counts them: of two that
    make the last one, the second finds it made."""
    await tx.fetch_one(_take_turn, {"user_id": user_id})
    row = await tx.fetch_one(_count_personal, {"user_id": user_id, "now": now_ms()})
    return int(row["total"]) if row else 0


async def find(reader: Reader, token_id: int) -> Details | None:
    """Any token, also one that is revoked: for those who run the server."""
    found = await _with_names(reader, await reader.fetch_all(_one, {"token_id": token_id}), None)
    return found[0] if found else None


async def every(reader: Reader, user_id: int | None = None) -> list[Details]:
    """All tokens, oldest first, also those that are revoked."""
    rows = await reader.fetch_all(_every_of, {"user_id": user_id}) if user_id else await reader.fetch_all(_every)
    return await _with_names(reader, rows, None)


async def keep_living(tx: Transaction, token_id: int) -> bool:
    """Whether the token is not revoked. Until the transaction ends nobody revokes it: what is made with it meanwhile
    is there when it is revoked, and is revoked with it."""
    return await tx.fetch_one(_kept_living, {"token_id": token_id}) is not None


async def repositories_named(
    reader: Reader, account_id: int, name_keys: Collection[str], user_id: int
) -> list[Repository]:
    """Those of an account that the user sees. `name_keys`: as `identity.queries.key_of` makes them."""
    params = {"account_id": account_id, "name_keys": list(name_keys), "user_id": user_id}
    found = [repository_of(row, user_id) for row in await reader.fetch_all(_named, params)]
    return [each for each in found if each.role is not None]


async def _with_names(reader: Reader, rows: Sequence[Row], user_id: int | None) -> list[Details]:
    """One more SELECT, if there is a token that is confined to repositories. `user_id`: who is told of those that they
    see; None: of all."""
    chosen = {row["id"]: tuple(json.decode(row["repositories"])) for row in rows if row["repositories"] is not None}
    wanted = sorted({each for ids in chosen.values() for each in ids})
    names = {}
    if wanted:
        params = {"repository_ids": wanted, "user_id": user_id or 0}
        found = [repository_of(row, user_id or 0) for row in await reader.fetch_all(_by_id, params)]
        names = {each.id: each.full_name for each in found if user_id is None or each.role is not None}
    return [_details(row, chosen.get(row["id"]), names) for row in rows]


def _details(row: Row, chosen: tuple[int, ...] | None, names: dict[int, str]) -> Details:
    return Details(
        id=row["id"],
        kind=row["kind"],
        user_id=row["user_id"],
        user=row["user_login"],
        note=row["note"],
        scopes=tuple(row["scopes"].split()),
        permissions=None if row["permissions"] is None else json.decode(row["permissions"]),
        organization=row["place_login"],
        repository_ids=chosen,
        repositories=None if chosen is None else tuple(sorted(names[each] for each in chosen if each in names)),
        app=None if row["app_slug"] is None else TokenApp(*(row[f"app_{name}"] for name in TokenApp.__struct_fields__)),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        last_used_at=row["last_used_at"],
        revoked_at=row["revoked_at"],
        family=row["family"] if row["parent_id"] is None else None,
        powers=_powers(row),
    )


def _powers(row: Row) -> TokenPermissions:
    allowed = json.decode(row["allowed"]) if row["allowed"] is not None else {}
    return TokenPermissions(row["id"], tuple(row["scopes"].split()), allowed)
