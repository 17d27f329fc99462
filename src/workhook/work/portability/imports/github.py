"""Plans of projects from GitHub issues and projects. Pure functions.

The files are the output of `gh issue list --json …` and `gh project item-list --format json`. The keys of an issue
depend on the requested fields, and only its number and title are required. docs/team/import.md documents the mapping.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from workhook.core.errors import say, shown
from workhook.work.board.projects.schemas import LABEL_COLORS_MAX, LabelColor
from workhook.work.portability.imports.json_file import Derived, InvalidFile, Key, Node, name_of, parse_json
from workhook.work.portability.imports.mapping import (
    KEY_MAX_CHARS,
    LABELS_MAX,
    PEOPLE_MAX,
    PlanMaker,
    PropertyBudget,
    ThingWarnings,
    UniqueNames,
    described,
    first_of,
    nearest_color,
    parse_moment,
    priority_in,
    title_of,
    truncate_bytes,
)
from workhook.work.portability.imports.plan import Choices, ImportPlan, Person, PlannedComment, PlannedTask
from workhook.work.portability.imports.words import has_meaning

SOURCE = "github"
OPEN, CLOSED, NO_STATUS = "Open", "Closed", "No status"
URL, AUTHOR, MILESTONE, REASON, KIND, NUMBER = (
    "github_url", "github_author", "github_milestone", "github_reason", "github_type", "github_number",
)  # fmt: skip

_OWN = ("content", "id", "title", "status", "assignees", "labels", "milestone", "repository")
_REPOSITORY = re.compile(r"https://[^/]+/([^/]+/[^/]+)/(?:issues|pull)/\d+")
_NOBODY = Person("", "", "")


class IssueComment(msgspec.Struct, frozen=True):
    id: str
    body: str
    created_at: Annotated[str, Key("createdAt")]
    author: Annotated[Person, Derived(_author)]
    reactions: Annotated[int, Derived(_reactions)]


class Issue(msgspec.Struct, frozen=True):
    """An issue. `colors` maps the names of its labels to their colors."""

    number: Annotated[str, Key("number", by=_required(Node.scalar))]
    title: Annotated[str, Key("title", by=_required(Node.text))]
    state: str
    milestone: Annotated[str, Key("milestone.title")]
    author: Annotated[Person, Derived(_author)]
    assignees: Annotated[list[Person], Derived(_assignees)]
    colors: Annotated[
        dict[str, str], Derived(lambda issue: {each.text("name"): each.text("color") for each in issue.nodes("labels")})
    ]
    comments: list[IssueComment]
    reactions: Annotated[int, Derived(_reactions)]
    body: str
    url: str
    state_reason: Annotated[str, Key("stateReason")]
    created_at: Annotated[str, Key("createdAt")]
    closed_at: Annotated[str, Key("closedAt")]

    @property
    def is_closed(self) -> bool | None:
        return self.state.upper() in ("CLOSED", "MERGED") if self.state else None


class ProjectItem(msgspec.Struct, frozen=True):
    """An issue, pull request or draft in a project. `fields` contains the project's fields by name, as text."""

    id: str
    kind: Annotated[str, Key("content.type")]
    number: Annotated[str, Key("content.number", by=Node.scalar)]
    title: Annotated[str, Key("content.title", "title")]
    body: Annotated[str, Key("content.body")]
    url: Annotated[str, Key("content.url")]
    repository: Annotated[str, Derived(_repository)]
    status: str
    milestone: Annotated[str, Key("milestone.title")]
    assignees: list[str]
    labels: list[str]
    fields: Annotated[dict[str, str], Derived(_fields_in)]


class GitHubFile(NamedTuple):
    issues: list[Issue]
    items: list[ProjectItem]


def is_export(found: object) -> bool:
    if isinstance(found, dict):
        return isinstance(found.get("items"), list)
    return isinstance(found, list) and all(isinstance(each, dict) and "title" in each for each in found)


def read_file(data: bytes) -> GitHubFile:
    """Parse a file. Raises `InvalidFile`."""
    found = parse_json(data)
    if isinstance(found, list):
        top = Node({"": found}, "")
        read = GitHubFile([each.read(Issue) for each in top.nodes("")], [])
    elif isinstance(found, dict) and "items" in found:
        top = Node(found, "")
        read = GitHubFile([], [each.read(ProjectItem) for each in top.nodes("items")])
    else:
        raise InvalidFile([f"this is neither a list of issues nor the items of a project, but {name_of(found)}"])
    if top.faults:
        raise InvalidFile(top.faults)
    return read


def _required(read: Callable[[Node, str], str]) -> Callable[[Node, str], str]:
    def needed(node: Node, key: str) -> str:
        if node.values.get(key) is None:
            node.note(key, "there", None)
        return read(node, key)

    return needed


def _person(node: Node) -> Person:
    return Person("", node.text("login"), node.text("name"))


def _assignees(issue: Node) -> list[Person]:
    return [_person(each) for each in issue.nodes("assignees")]


def _author(node: Node) -> Person:
    return _person(node.node("author"))


def _reactions(node: Node) -> int:
    return sum(each.node("users").count("totalCount") for each in node.nodes("reactionGroups"))


def _repository(item: Node) -> str:
    return item.node("content").text("repository") or item.text("repository").removeprefix("https://github.com/")


def _fields_in(item: Node) -> dict[str, str]:
    return {key: text for key in item.values if key not in _OWN and (text := _field(item, key))}


def _field(node: Node, key: str) -> str:
    """Return a project field as text. It may be text, a number, a day, an iteration, or a list of texts."""
    value: Any = node.values[key]
    if isinstance(value, list):
        return ", ".join(node.texts(key))
    if isinstance(value, Mapping):
        inside = node.node(key)
        return inside.text("title") or inside.text("name")
    return node.scalar(key)


# --- the plan ---------------------------------------------------------------------------------------------------------


def plan_of_files(files: Sequence[GitHubFile], title: str, choices: Choices) -> ImportPlan:
    """Plan one project from all files. Later imports find it by its `title`.

    The columns are the values of Status, or Open and Closed if the files contain no GitHub project.
    """
    title = title_of(title)
    issues = _by_address(files)
    items = [each for file in files for each in file.items]
    made = PlanMaker(SOURCE, title, choices, NO_STATUS, finished=(CLOSED,))
    mapper = _IssueMapper(title, made, has_project=bool(items))
    planned = []
    for item in items:
        by_address = issues.pop(_address(item), None)
        planned.append(mapper.task(by_address or issues.pop(f"#{item.number}", None), item))
    planned += [mapper.task(each, None) for each in issues.values()]
    return made.plan(title, planned, "column", label_colors=_colors(files))


def _by_address(files: Sequence[GitHubFile]) -> dict[str, Issue]:
    """Return issues by address, the last one of each.

    Raises `InvalidFile` if different issues share a number without a URL.
    """
    found: dict[str, Issue] = {}
    for each in (issue for file in files for issue in file.issues):
        address = _address(each)
        if not each.url and address in found and found[address].title != each.title:
            raise InvalidFile([f"two issues have the number {shown(each.number)}; add the field url to gh's output"])
        found[address] = each
    return found


def _address(thing: Issue | ProjectItem) -> str:
    """Return the common address of an issue and its project item. A draft only has an ID."""
    if thing.url:
        return thing.url
    if isinstance(thing, Issue):
        return f"#{thing.number}"
    return f"{thing.repository}#{thing.number}" if thing.number else thing.id


class _IssueMapper:
    def __init__(self, title: str, made: PlanMaker, *, has_project: bool) -> None:
        self._title, self._made, self._has_project = title, made, has_project
        self._milestones: set[str] = set()
        if not has_project:
            made.column(OPEN)
            made.column(CLOSED)

    def task(self, issue: Issue | None, item: ProjectItem | None) -> PlannedTask:
        """Plan a task from an issue, a project item, or both."""
        name = issue.title if issue else item.title if item else ""
        warn = ThingWarnings("issue", name, self._made.warnings)
        is_closed = issue.is_closed if issue else None
        column = self._made.column(self._status(item, is_closed=bool(is_closed)))
        finished = bool(is_closed) or column.completes
        thing = issue or item
        labels = [*(issue.colors if issue else ()), *(item.labels if item else ())]
        labels = list(dict.fromkeys(title_of(each) for each in labels if each.strip()))
        priority, others = priority_in(list(item.fields.items()) if item else [])
        custom = dict(others)
        due = next((each for each in custom if has_meaning("due", each) and parse_moment(custom[each]) is not None), "")
        known = {each: Person("", each, "") for each in (item.assignees if item else ())}
        known |= {each.username: each for each in (issue.assignees if issue else ())}
        people = [person for login, person in known.items() if login]
        self._note_lost(issue, name)
        key = self._made.key_of(f"task:{self._title}/{_address(thing) if thing else ''}")
        return PlannedTask(
            key=key,
            column_key=column.key,
            title=title_of(name),
            description=described("title", name, (issue.body if issue else "") or (item.body if item else ""), warn),
            deadline=parse_moment(custom.pop(due)) if due else None,
            labels=first_of(labels, LABELS_MAX, say("labels"), warn),
            fields=_fields(issue, item, custom, PropertyBudget(warn)),
            members=first_of(people, PEOPLE_MAX, say("assignees"), warn),
            finished=finished,
            finished_at=parse_moment(issue.closed_at) if issue and finished else None,
            created_at=parse_moment(issue.created_at) if issue else None,
            comments=list(self._comments(issue, key, warn)) if issue else [],
            priority=priority,
        )

    def _status(self, item: ProjectItem | None, *, is_closed: bool) -> str:
        if item is not None and item.status.strip():
            return item.status
        if self._has_project and not is_closed:
            return NO_STATUS
        return CLOSED if is_closed else OPEN

    def _comments(self, issue: Issue, key: str, warn: ThingWarnings) -> Iterator[PlannedComment]:
        key_of = UniqueNames(KEY_MAX_CHARS)
        cut = 0
        for each in issue.comments:
            text = each.body.strip()
            if not text:
                continue
            kept = truncate_bytes(text)
            cut += kept != text
            known = each.id or f"{each.author.username}/{each.created_at}"
            comment_key = key_of(f"task_comment:{key.removeprefix('task:')}/{known}")
            yield PlannedComment(comment_key, kept, each.author, parse_moment(each.created_at))
        if cut:
            warn(say("comments shortened to {} KiB: {}", 64, cut))

    def _note_lost(self, issue: Issue | None, name: str) -> None:
        if issue is None:
            return
        if issue.milestone and issue.milestone not in self._milestones:
            self._milestones.add(issue.milestone)
            self._made.losses.add("milestones", issue.milestone, kept=f"the field {MILESTONE}")
        reactions = issue.reactions + sum(each.reactions for each in issue.comments)
        self._made.losses.add("reactions", name, count=reactions)


def _colors(files: Sequence[GitHubFile]) -> dict[str, LabelColor]:
    found: dict[str, LabelColor] = {}
    for name, text in (pair for file in files for issue in file.issues for pair in issue.colors.items()):
        color = nearest_color(text)
        if name.strip() and color and len(found) < LABEL_COLORS_MAX:
            found.setdefault(title_of(name), color)
    return found


def _fields(
    issue: Issue | None, item: ProjectItem | None, custom: dict[str, str], budget: PropertyBudget
) -> dict[str, str]:
    author = issue.author.display_name if issue and issue.author != _NOBODY else ""
    kind = item.kind if item and item.kind != "Issue" else ""
    own = {
        URL: (issue.url if issue else "") or (item.url if item else ""),
        NUMBER: (issue.number if issue else "") or (item.number if item else ""),
        AUTHOR: author,
        MILESTONE: (issue.milestone if issue else "") or (item.milestone if item else ""),
        REASON: issue.state_reason.lower() if issue and issue.is_closed else "",
        KIND: {"PullRequest": "pull request", "DraftIssue": "draft"}.get(kind, kind),
    }
    return budget.fields((*own.items(), *((title_of(name), text) for name, text in custom.items())))


def title_in(files: Sequence[GitHubFile], otherwise: str) -> str:
    """Return the repository shared by all issues and items, or `otherwise`."""
    addresses = [each.url for file in files for each in file.issues]
    addresses += [each.url for file in files for each in file.items]
    found = {match[1] for each in addresses if (match := _REPOSITORY.match(each))}
    return shown(found.pop()) if len(found) == 1 else otherwise
