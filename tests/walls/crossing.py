"""Requests in A that refer to things in B. Each must be answered as if those things did not exist.

Each case builds its request from the names it is given: first those of B, then names that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from tests.identity.asking import Request
from tests.walls.bounds import SHUT
from tests.walls.world import Walls
from workhook.core.ids import new_id

NOTHING = "nothing-of-this"


@dataclass(frozen=True)
class Names:
    organization: str
    organization_id: int
    repository: str
    repository_id: int
    login: str
    user_id: int
    email: str
    word: str
    project: str
    column: str
    task: str
    folder: str
    service: str
    timesheet: str
    hook: int
    delivery: int
    installation: int


def names_of(walls: Walls) -> Names:
    """Return names from B, preferring its private project."""
    beyond, scene, dump = walls.beyond, walls.shut, walls.reader.dump()
    shut = next(row for row in dump["projects"].values() if row["id"] == scene.project_id)
    return Names(
        organization=beyond.world.organization,
        organization_id=beyond.account.id,
        repository=shut["name"],
        repository_id=shut["repository_id"],
        login=beyond.bea.login,
        user_id=beyond.bea.id,
        email=f"{SHUT}@example.com",
        word=SHUT,
        project=scene.project_id,
        column=scene.column(),
        task=scene.task(),
        folder=scene.folder(),
        service=scene.service(),
        timesheet=scene.timesheet(),
        hook=walls.hooks[0],
        delivery=next(key for (key,), row in dump["deliveries"].items() if row["hook_id"] == walls.hooks[0]),
        installation=beyond.installation_id,
    )


def names_of_nothing() -> Names:
    return Names(
        organization=NOTHING,
        organization_id=999_999_990,
        repository=f"{NOTHING}-r",
        repository_id=999_999_991,
        login=f"{NOTHING}-l",
        user_id=999_999_992,
        email=f"{NOTHING}@example.com",
        word="zqnothing",
        project=new_id("prj"),
        column=new_id("col"),
        task=new_id("tsk"),
        folder=new_id("fld"),
        service=new_id("srv"),
        timesheet=new_id("tms"),
        hook=999_999_993,
        delivery=999_999_994,
        installation=999_999_995,
    )


Ask = Callable[[Names], Request]


class Case(NamedTuple):
    title: str
    ask: Ask
    by: str = "pure"  # the caller whose token is used, or "app"


def _work(method: str, path: str, **body: Any) -> Request:
    return Request(method, f"/api/v1{path}", {"params" if method == "GET" else "json": body})


def _records(walls: Walls) -> Iterator[Case]:
    """Yield requests that pass foreign IDs as parameters of work management."""
    scene = walls.site.scene
    path, task, invoice, column = scene.project_path, scene.task(), scene.invoice(), scene.column()
    yield Case(
        "project of another organization",
        lambda to: _work("POST", "/projects", title="New", organization=to.organization),
    )
    yield Case(
        "service of another organization",
        lambda to: _work("POST", "/services", title="New", organization=to.organization),
    )
    yield Case("task to another column", lambda to: _work("PATCH", f"/tasks/{task}", column_id=to.column))
    yield Case("task below another", lambda to: _work("PATCH", f"/tasks/{task}", parent_id=to.task))
    yield Case(
        "new task below another", lambda to: _work("POST", f"/columns/{column}/tasks", title="New", parent_id=to.task)
    )
    yield Case("task that waits", lambda to: _work("PATCH", f"/tasks/{task}", blocked_by=[to.task]))
    yield Case("task assigned", lambda to: _work("PATCH", f"/tasks/{task}", assignees=[to.login]))
    yield Case(
        "new task assigned", lambda to: _work("POST", f"/columns/{column}/tasks", title="New", assignees=[to.login])
    )
    for operation in (
        {"action": "create", "column_id": "{column}", "title": "New"},
        {"action": "edit", "id": "{task}", "title": "New"},
        {"action": "edit", "id": task, "column_id": "{column}"},
        {"action": "edit", "id": task, "assignees": ["{login}"]},
        {"action": "edit", "id": task, "parent_id": "{task}"},
        {"action": "edit", "id": task, "blocked_by": ["{task}"]},
    ):
        yield Case("bulk", _request_with_names("POST", "/api/v1/tasks/bulk", operations=[operation]))
    yield Case("checkout", lambda to: _work("POST", f"{path}/service_checkouts", service_id=to.service))
    yield Case("credit", lambda to: _work("POST", f"{path}/task_credits", kind="spend", amount=1, task_id=to.task))
    yield Case("invoice", lambda to: _work("POST", f"{path}/invoices", timesheet_ids=[to.timesheet]))
    yield Case("edited invoice", lambda to: _work("PATCH", f"/invoices/{invoice}", timesheet_ids=[to.timesheet]))
    yield Case("timesheet", lambda to: _work("POST", f"{path}/timesheets", task_id=to.task, duration=1000))
    files = {"file": ("a.txt", b"a file")}
    at = f"/api/v1{path}/files"
    yield Case("file", lambda to: Request("POST", at, {"files": files, "data": {"folder": to.folder}}))
    yield Case("file on a task", lambda to: Request("POST", at, {"files": files, "data": {"task_id": to.task}}))


def _people(walls: Walls) -> Iterator[Case]:
    path, here = walls.site.scene.project_path, walls.site.here
    yield Case("client by address", lambda to: _work("POST", f"{path}/clients", email=to.email))
    yield Case("member taken away", lambda to: _work("DELETE", f"{path}/members/{to.login}"))
    for asked in (
        f"{here.org_path}/members/{{login}}",
        f"{here.org_path}/memberships/{{login}}",
        f"{here.repo_path}/collaborators/{{login}}",
        f"{here.repo_path}/collaborators/{{login}}/permission",
        *(f"/users/{{login}}{of}" for of in ("", "/orgs", "/repos", "/keys", "/gpg_keys")),
        "/user/{user_id}",
        "/organizations/{organization_id}",
        "/repositories/{repository_id}",
        "/orgs/{organization}",
        "/repos/{organization}/{repository}",
        "/user/memberships/orgs/{organization}",
    ):
        yield Case(asked, _request_with_names("GET", asked))


def _lists(walls: Walls) -> Iterator[Case]:
    """Yield lists with foreign filters."""
    path = walls.site.scene.project_path
    column = walls.site.scene.column()
    for title, ask in {
        "tasks of somebody": lambda to: _work("GET", f"{path}/tasks", assignee=to.login),
        "tasks with words": lambda to: _work("GET", f"{path}/tasks", q=to.word),
        "column of a project": lambda to: _work("GET", f"/columns/{column}", project_id=to.project),
        "files": lambda to: _work("GET", f"{path}/files", folder=to.folder),
        "timesheets of somebody": lambda to: _work("GET", f"{path}/timesheets", user=to.login),
        "timesheets of a task": lambda to: _work("GET", f"{path}/timesheets", task_id=to.task),
        "report of a project": lambda to: _work("GET", "/reports/timesheets", project_id=to.project),
        "report of somebody": lambda to: _work("GET", "/reports/timesheets", user=to.login),
        "all tasks of a project": lambda to: _work("GET", "/tasks", project_id=to.project),
        "all tasks of somebody": lambda to: _work("GET", "/tasks", assignee=to.login),
        "all tasks with words": lambda to: _work("GET", "/tasks", q=to.word),
        "all time of somebody": lambda to: _work("GET", "/timesheets", user=to.login),
        "all time of a task": lambda to: _work("GET", "/timesheets", task_id=to.task),
        "what runs for somebody": lambda to: _work("GET", "/timesheets/running", user=to.login),
        "all invoices of a project": lambda to: _work("GET", "/invoices", project_id=to.project),
        "files of a task": lambda to: _work("GET", f"{path}/files", task_id=to.task),
        "subtasks": lambda to: _work("GET", f"{path}/tasks", parent_id=to.task),
        "all subtasks": lambda to: _work("GET", "/tasks", parent_id=to.task),
        "all files of a task": lambda to: _work("GET", "/files", task_id=to.task),
        "all files of a folder": lambda to: _work("GET", "/files", folder=to.folder),
        "all comments of a project": lambda to: _work("GET", "/comments", project_id=to.project),
        "search": lambda to: _work("GET", "/search", q=to.word),
        "services": lambda to: _work("GET", "/services", organization=to.organization),
        "projects": lambda to: _work("GET", "/projects", organization=to.organization),
        "activity of somebody": lambda to: _work("GET", f"{path}/activity", actor=to.login),
    }.items():
        yield Case(title, ask)
        yield Case(title, ask, "client")
    # The client also belongs to B and sees what is open there.
    yield Case("all tasks of an organization", lambda to: _work("GET", "/tasks", organization=to.organization))
    yield Case("all comments of somebody", lambda to: _work("GET", "/comments", user=to.login))


def _apps(walls: Walls) -> Iterator[Case]:
    """Yield requests about webhooks, installations and tokens."""
    here, site = walls.site.here, walls.site
    robot, installed = site.apps["here"].installation_id, f"{here.org_path}/installations"
    of_user = f"/user/installations/{site.apps['spare'].installation_id}/repositories/{{repository_id}}"
    own = f"{here.repo_path}/hooks/{site.hooks['repository', 'classic']['hook_id']}/deliveries"
    for hook in (f"{here.repo_path}/hooks/{{hook}}", f"{here.org_path}/hooks/{{hook}}"):
        for ending in ("", "/config", "/health", "/deliveries"):
            yield Case("hook", _request_with_names("GET", f"{hook}{ending}"))
        yield Case("redelivery", _request_with_names("GET", f"{hook}/redeliveries/1"))
        yield Case("ping", _request_with_names("POST", f"{hook}/pings"))
        yield Case("hook edited", _request_with_names("PATCH", hook, active=False))
        yield Case("hook deleted", _request_with_names("DELETE", hook))
    yield Case("delivery", _request_with_names("GET", f"{own}/{{delivery}}"))
    yield Case("delivery again", _request_with_names("POST", f"{own}/{{delivery}}/attempts"))
    yield Case("deliveries again", _request_with_names("POST", f"{own}/redeliver", ids=["{delivery}"]))
    for method in ("PUT", "DELETE"):
        yield Case("repository of an installation", _request_with_names(method, of_user))
        yield Case("suspended", _request_with_names(method, f"{installed}/{{installation}}/suspended"))
    for method in ("GET", "DELETE"):
        yield Case("installation", _request_with_names(method, f"{installed}/{{installation}}"))
    ids: dict[str, Any] = {"repository_ids": ["{repository_id}"]}
    names: dict[str, Any] = {"repositories": ["{repository}"]}
    chosen = {"repository_selection": "selected", **names}
    yield Case("installing", _request_with_names("POST", installed, app=site.apps["idle"].slug, **chosen))
    yield Case(
        "installed on", _request_with_names("PATCH", f"{installed}/{site.apps['spare'].installation_id}", **chosen)
    )
    for more in (ids, names):
        yield Case(
            "token of an app", _request_with_names("POST", f"/app/installations/{robot}/access_tokens", **more), "app"
        )
    fine = {"note": "New", "kind": "fine_grained", "permissions": {"work": "read"}}
    for more in (
        {"organization": "{organization}"},
        *({"organization": here.organization, **each} for each in (ids, names)),
    ):
        yield Case("token", _request_with_names("POST", "/user/tokens", **fine, **more))
    for query in ('user(login:"{login}")', 'organization(login:"{organization}")'):
        yield Case(query, _request_with_names("POST", "/graphql", query=f"{{{{{query}{{{{id}}}}}}}}"))


def _request_with_names(method: str, path: str, **body: Any) -> Ask:
    """Return a case that fills in the names in braces, in the path and in the body."""

    def ask(to: Names) -> Request:
        filled = _filled(body, asdict(to))
        return Request(method, path.format(**asdict(to)), {"json": filled} if method in ("POST", "PATCH") else {})

    return ask


def _filled(value: Any, names: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, names) for each in value]
    if isinstance(value, str):
        return names[value[1:-1]] if value[1:-1] in names else value.format(**names)
    return value


def cases(walls: Walls) -> list[Case]:
    return [*_records(walls), *_people(walls), *_lists(walls), *_apps(walls)]


def without_names(text: str, names: Names) -> str:
    """Return the text with all names replaced by placeholders, because an answer may echo what was requested."""
    for field, name in sorted(asdict(names).items(), key=lambda each: -len(str(each[1]))):
        text = text.replace(str(name), f"<{field}>")
    return text
