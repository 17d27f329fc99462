"""Reads issues and projects of GitHub as `gh` prints them, with `gh issue list --json …` and `gh project item-list
--format json`.

Which keys an issue has depends on what was asked for; only its number and title have to be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from workhook.work.portability.imports.json_file import Node, NotUsable, name_of, parse_json


class IssuePerson(msgspec.Struct, frozen=True):
    login: str
    name: str


class IssueComment(msgspec.Struct, frozen=True):
    id: str
    body: str
    created_at: str = msgspec.field(name="createdAt")
    author: IssuePerson
    reactions: int


class Issue(msgspec.Struct, frozen=True):
    """`is_closed` None: the file does not say. `colors`: of labels, by their names."""

    number: str
    title: str
    body: str
    url: str
    is_closed: bool | None
    state_reason: str = msgspec.field(name="stateReason")
    created_at: str = msgspec.field(name="createdAt")
    closed_at: str = msgspec.field(name="closedAt")
    milestone: str
    author: IssuePerson
    assignees: list[IssuePerson]
    labels: list[str]
    colors: dict[str, str]
    comments: list[IssueComment]
    reactions: int


class ProjectItem(msgspec.Struct, frozen=True):
    """An issue, pull request or draft on a project. `fields`: those of the project, by their names, as text."""

    id: str
    kind: str
    number: str
    title: str
    body: str
    url: str
    repository: str
    status: str
    milestone: str
    assignees: list[str]
    labels: list[str]
    fields: dict[str, str]


class GitHubFile(NamedTuple):
    issues: list[Issue]
    items: list[ProjectItem]


_OWN = ("content", "id", "title", "status", "assignees", "labels", "milestone", "repository")


def is_export(found: object) -> bool:
    """Whether JSON looks like what `gh` prints."""
    if isinstance(found, dict):
        return isinstance(found.get("items"), list)
    return isinstance(found, list) and all(isinstance(each, dict) and "title" in each for each in found)


def read_file(data: bytes) -> GitHubFile:
    """Raises `NotUsable`."""
    found = parse_json(data)
    if isinstance(found, list):
        top = Node({"": found}, "")
        read = GitHubFile([_issue(each) for each in top.nodes("")], [])
    elif isinstance(found, dict) and "items" in found:
        top = Node(found, "")
        read = GitHubFile([], [_item(each) for each in top.nodes("items")])
    else:
        raise NotUsable([f"it is neither a list of issues nor the items of a project: it holds {name_of(found)}"])
    if top.faults:
        raise NotUsable(top.faults)
    return read


def _issue(node: Node) -> Issue:
    if node.values.get("number") is None:
        node.note("number", "there", None)
    if node.values.get("title") is None:
        node.note("title", "there", None)
    state = node.text("state").upper()
    labels = list(node.nodes("labels"))
    return node.read(
        Issue,
        number=node.scalar("number"),
        is_closed=None if not state else state in ("CLOSED", "MERGED"),
        milestone=node.node("milestone").text("title"),
        author=_person(node.node("author")),
        assignees=[_person(each) for each in node.nodes("assignees")],
        labels=[each.text("name") for each in labels],
        colors={each.text("name"): each.text("color") for each in labels},
        comments=[_comment(each) for each in node.nodes("comments")],
        reactions=_reactions(node),
    )


def _person(node: Node) -> IssuePerson:
    return IssuePerson(node.text("login"), node.text("name"))


def _comment(node: Node) -> IssueComment:
    return node.read(IssueComment, author=_person(node.node("author")), reactions=_reactions(node))


def _reactions(node: Node) -> int:
    counts = (each.node("users").number("totalCount") for each in node.nodes("reactionGroups"))
    return sum(int(each) for each in counts if 0 <= each < 1_000_000)  # what is missing is infinite


def _item(node: Node) -> ProjectItem:
    content = node.node("content")
    repository = content.text("repository") or node.text("repository").removeprefix("https://github.com/")
    return ProjectItem(
        id=node.text("id"),
        kind=content.text("type"),
        number=content.scalar("number"),
        title=content.text("title") or node.text("title"),
        body=content.text("body"),
        url=content.text("url"),
        repository=repository,
        status=node.text("status"),
        milestone=node.node("milestone").text("title"),
        assignees=node.texts("assignees"),
        labels=node.texts("labels"),
        fields={key: text for key in node.values if key not in _OWN and (text := _field(node, key))},
    )


def _field(node: Node, key: str) -> str:
    """A value of a field of the project: text, a number, a day, an iteration, or a list of texts."""
    value: Any = node.values[key]
    if isinstance(value, list):
        return ", ".join(node.texts(key))
    if isinstance(value, Mapping):
        inside = node.node(key)
        return inside.text("title") or inside.text("name")
    return node.scalar(key)
