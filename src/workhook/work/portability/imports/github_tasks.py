"""From issues and a project of GitHub to the plan of a project. Pure. docs/how-to/import.md says what becomes what."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from workhook.core.errors import Message, say, shown
from workhook.work.board.projects.schemas import LABEL_COLORS_MAX, LabelColor
from workhook.work.portability.imports.board import ColumnNames, nearest_color
from workhook.work.portability.imports.github import GitHubFile, Issue, IssuePerson, ProjectItem
from workhook.work.portability.imports.json_file import NotUsable
from workhook.work.portability.imports.losses import Losses
from workhook.work.portability.imports.plan import ImportPlan, Person, PlannedComment, PlannedTask
from workhook.work.portability.imports.texts import (
    KEY_MAX_CHARS,
    LABELS_MAX,
    PEOPLE_MAX,
    Distinct,
    PropertyBudget,
    ThingWarnings,
    described,
    first_of,
    moment_of,
    priority_in,
    title_of,
    unknown_names,
    within,
)
from workhook.work.portability.imports.words import StageNames, means

SOURCE = "github"
OPEN, CLOSED, NO_STATUS = "Open", "Closed", "No status"
URL, AUTHOR, MILESTONE, REASON, KIND, NUMBER = (
    "github_url", "github_author", "github_milestone", "github_reason", "github_type", "github_number",
)  # fmt: skip

_REPOSITORY = re.compile(r"https://[^/]+/([^/]+/[^/]+)/(?:issues|pull)/\d+")
_NOBODY = IssuePerson("", "")


def plan_of_files(
    files: Sequence[GitHubFile], title: str, *, done: Collection[str] = (), not_done: Collection[str] = ()
) -> ImportPlan:
    """One project of all files. `title`: of the project, by which a later import finds it. Without a project of GitHub
    the columns are Open and Closed; with one they are its values of Status. `done` and `not_done`: names of columns, as
    `StageNames` has them."""
    title = title_of(title)
    issues = _by_address(files)
    items = [each for file in files for each in file.items]
    mapper = _IssueMapper(title, StageNames({CLOSED, *done}, not_done), has_project=bool(items))
    planned = [mapper.task(_issue_of(item, issues), item) for item in items]
    planned += [mapper.task(each, None) for each in issues.values()]
    columns = mapper.columns
    warnings = [*unknown_names(done, (each.title for each in columns.columns), "column"), *mapper.warnings]
    return ImportPlan(
        SOURCE, mapper.project_key, title, columns.columns, planned, [*warnings, *columns.warnings],
        mapper.losses.found(), label_colors=_colors(files),
    )  # fmt: skip


def _by_address(files: Sequence[GitHubFile]) -> dict[str, Issue]:
    """The last of each. Raises `NotUsable` for two issues of one number whose repositories nobody knows."""
    found: dict[str, Issue] = {}
    for each in (issue for file in files for issue in file.issues):
        address = _address(each)
        if not each.url and address in found and found[address].title != each.title:
            raise NotUsable([f"two issues have the number {shown(each.number)}; let gh print the field url, too"])
        found[address] = each
    return found


def _issue_of(item: ProjectItem, issues: dict[str, Issue]) -> Issue | None:
    """Takes the issue of an item out of `issues`; of one without an address, by its number."""
    found = issues.pop(_address(item), None)
    return found or issues.pop(f"#{item.number}", None)


def _address(thing: Issue | ProjectItem) -> str:
    """What is the same for an issue and for its item. A draft has only an id."""
    if thing.url:
        return thing.url
    if isinstance(thing, Issue):
        return f"#{thing.number}"
    return f"{thing.repository}#{thing.number}" if thing.number else thing.id


class _IssueMapper:
    def __init__(self, title: str, stages: StageNames, *, has_project: bool) -> None:
        self.project_key = f"project:{title}"
        self.columns = ColumnNames(self.project_key, stages, NO_STATUS)
        self.losses = Losses()
        self.warnings: list[Message] = []
        self._title = title
        self._has_project = has_project
        self._key_of = Distinct(KEY_MAX_CHARS)
        if not has_project:
            self.columns.column(OPEN)
            self.columns.column(CLOSED)

    def task(self, issue: Issue | None, item: ProjectItem | None) -> PlannedTask:
        """`issue` and `item`: one of both, or both where they are the same."""
        name = issue.title if issue else item.title if item else ""
        warn = ThingWarnings("issue", name, self.warnings)
        is_closed = issue.is_closed if issue else None
        column = self.columns.column(self._status(item, is_closed=bool(is_closed)))
        finished = bool(is_closed) or column.completes
        thing = issue or item
        labels = [*(issue.labels if issue else ()), *(item.labels if item else ())]
        labels = list(dict.fromkeys(title_of(each) for each in labels if each.strip()))
        priority, others = priority_in(list(item.fields.items()) if item else [])
        custom = dict(others)
        due = next((each for each in custom if means("due", each) and moment_of(custom[each]) is not None), "")
        self._note_lost(issue, name)
        key = self._key_of(f"task:{self._title}/{_address(thing) if thing else ''}")
        return PlannedTask(
            key=key,
            column_key=column.key,
            title=title_of(name),
            description=described("title", name, (issue.body if issue else "") or (item.body if item else ""), warn),
            deadline=moment_of(custom.pop(due)) if due else None,
            labels=first_of(labels, LABELS_MAX, say("labels"), warn),
            fields=_fields(issue, item, custom, PropertyBudget(warn)),
            members=first_of(_people(issue, item), PEOPLE_MAX, say("assignees"), warn),
            finished=finished,
            finished_at=moment_of(issue.closed_at) if issue and finished else None,
            created_at=moment_of(issue.created_at) if issue else None,
            comments=list(self._comments(issue, key, warn)) if issue else [],
            priority=priority,
        )

    def _status(self, item: ProjectItem | None, *, is_closed: bool) -> str:
        """The name of the column."""
        if item is not None and item.status.strip():
            return item.status
        if self._has_project and not is_closed:
            return NO_STATUS
        return CLOSED if is_closed else OPEN

    def _comments(self, issue: Issue, key: str, warn: ThingWarnings) -> Iterator[PlannedComment]:
        """In the order of the file, which is that in which they were written."""
        key_of = Distinct(KEY_MAX_CHARS)
        cut = 0
        for each in issue.comments:
            text = each.body.strip()
            if not text:
                continue
            kept = within(text)
            cut += kept != text
            known = each.id or f"{each.author.login}/{each.created_at}"
            comment_key = key_of(f"task_comment:{key.removeprefix('task:')}/{known}")
            yield PlannedComment(comment_key, kept, _person(each.author), moment_of(each.created_at))
        if cut:
            warn(say("{} of its comments cut to {} KiB", cut, 64))

    def _note_lost(self, issue: Issue | None, name: str) -> None:
        if issue is None:
            return
        if issue.milestone:
            self.losses.add_once("milestones", issue.milestone, kept=f"the field {MILESTONE}")
        reactions = issue.reactions + sum(each.reactions for each in issue.comments)
        self.losses.add("reactions", name, count=reactions)


def _colors(files: Sequence[GitHubFile]) -> dict[str, LabelColor]:
    """The colours of labels, as near as a project has them."""
    found: dict[str, LabelColor] = {}
    for name, text in (pair for file in files for issue in file.issues for pair in issue.colors.items()):
        color = nearest_color(text)
        if name.strip() and color and len(found) < LABEL_COLORS_MAX:
            found.setdefault(title_of(name), color)
    return found


def _person(person: IssuePerson) -> Person:
    return Person("", person.login, person.name)


def _people(issue: Issue | None, item: ProjectItem | None) -> list[Person]:
    logins = {each.login: _person(each) for each in (issue.assignees if issue else ())}
    logins = {each: Person("", each, "") for each in (item.assignees if item else ())} | logins
    return [person for login, person in logins.items() if login]


def _fields(
    issue: Issue | None, item: ProjectItem | None, custom: dict[str, str], budget: PropertyBudget
) -> dict[str, str]:
    author = _person(issue.author).display_name if issue and issue.author != _NOBODY else ""
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
    """The repository that all issues and items are of, else `otherwise`."""
    addresses = [each.url for file in files for each in file.issues]
    addresses += [each.url for file in files for each in file.items]
    found = {match[1] for each in addresses if (match := _REPOSITORY.match(each))}
    return shown(found.pop()) if len(found) == 1 else otherwise
