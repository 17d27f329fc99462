"""Rows that outlived the permission they depend on: webhooks without a consenting user, timers without a writer."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.walls.dump import Dump, Row


def left_over(dump: Dump) -> list[str]:
    """Describe each row that should no longer be active. Deliberately a second implementation of the rules."""
    return [*_hooks(dump), *_timers(dump), *_ended_by_clients(dump)]


def _hooks(dump: Dump) -> Iterator[str]:
    """Webhooks of OAuth apps are active only while a user who may manage webhooks there consents to the app."""
    for hook in dump["hooks"].values():
        granted = {each["user_id"] for each in dump["grants"].values() if each["app_id"] == hook["app_id"]}
        if hook["active"] and hook["app_id"] is not None and not granted & _admins(dump, hook):
            yield f"no one in its organization authorizes the app of this webhook: {hook['id']}"


def _admins(dump: Dump, hook: Row) -> set[int]:
    owners = {
        each["user_id"]
        for each in dump["memberships"].values()
        if each["organization_id"] == hook["account_id"] and each["role"] == "owner"
    }
    admins = {
        each["user_id"]
        for each in dump["collaborators"].values()
        if each["repository_id"] == hook["repository_id"] and each["role"] == "admin"
    }
    return owners | admins | {hook["account_id"]}


def _timers(dump: Dump) -> Iterator[str]:
    projects = {each["repository_id"]: each for each in dump["projects"].values()}
    for timer in dump["timesheets"].values():
        if timer["is_active"] and timer["user_id"] not in _writers(dump, projects[timer["repository_id"]]):
            yield f"who keeps this time cannot write there: {timer['id']}"


def _writers(dump: Dump, project: Row) -> set[int]:
    members = {
        each["user_id"]
        for each in dump["memberships"].values()
        if each["organization_id"] == project["account_id"] and (each["role"] == "owner" or not project["private"])
    }
    added = {
        each["user_id"]
        for each in dump["collaborators"].values()
        if each["repository_id"] == project["repository_id"] and each["role"] in ("write", "admin")
    }
    return members | added | {project["account_id"]}


def _ended_by_clients(dump: Dump) -> Iterator[str]:
    """Time entries belong to the team: clients never cause changes to them."""
    clients = {(each["repository_id"], each["user_id"]) for each in dump["clients"].values()}
    for event in dump["events"].values():
        if event["name"] == "timesheet":
            sender = json.loads(event["payload"])["sender"]["id"]
            if (event["repository_id"], sender) in clients:
                yield f"a client had a hand in somebody's time: event {event['id']}"
