"""Requests in A that name things of B: each is answered as if what they name were not there.

A case says what is asked with the names that it is given: once B's, once names that nothing has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from tests.identity.asking import Request
from tests.walls.world import SHUT, Walls
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
    """B's, made anew in its private project where there is a choice."""
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
        *(
            NOTHING,
            999_999_990,
            f"{NOTHING}-r",
            999_999_991,
            f"{NOTHING}-l",
            999_999_992,
            f"{NOTHING}@example.com",
            "zqnothing",
        ),
        *(new_id(prefix) for prefix in ("prj", "col", "tsk", "fld", "srv", "tms")),
        *(999_999_993, 999_999_994, 999_999_995),
    )


Ask = Callable[[Names], Request]


class Case(NamedTuple):
    title: str
    ask: Ask
    by: str = "pure"  # whose token, or the app's own


def _work(method: str, path: str, **body: Any) -> Request:
    return Request(method, f"/api/v1{path}", {"params" if method == "GET" else "json": body})


def _records(walls: Walls) -> Iterator[Case]:
    """Parameters of work management."""
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
    yield Case("task assigned", lambda to: _work("PATCH", f"/tasks/{task}", assignees=[to.login]))
    yield Case(
        "new task assigned", lambda to: _work("POST", f"/columns/{column}/tasks", title="New", assignees=[to.login])
    )
    for operation in (
        lambda to: {"action": "create", "column_id": to.column, "title": "New"},
        lambda to: {"action": "edit", "id": to.task, "title": "New"},
        lambda to: {"action": "edit", "id": task, "column_id": to.column},
        lambda to: {"action": "edit", "id": task, "assignees": [to.login]},
    ):
        yield Case("bulk", lambda to, each=operation: _work("POST", "/tasks/bulk", operations=[each(to)]))  # type: ignore[misc]
    yield Case("checkout", lambda to: _work("POST", f"{path}/service_checkouts", service_id=to.service))
    yield Case("credit", lambda to: _work("POST", f"{path}/task_credits", kind="spend", amount=1, task_id=to.task))
    yield Case("invoice", lambda to: _work("POST", f"{path}/invoices", timesheet_ids=[to.timesheet]))
    yield Case("edited invoice", lambda to: _work("PATCH", f"/invoices/{invoice}", timesheet_ids=[to.timesheet]))
    yield Case("timesheet", lambda to: _work("POST", f"{path}/timesheets", task_id=to.task, duration=1000))
    files = {"file": ("a.txt", b"a file")}
    at = f"/api/v1{path}/files"
    yield Case("file", lambda to: Request("POST", at, {"files": files, "data": {"folder": to.folder}}))


def _people(walls: Walls) -> Iterator[Case]:
    path, here = walls.site.scene.project_path, walls.site.here
    yield Case("client by address", lambda to: _work("POST", f"{path}/clients", email=to.email))
    yield Case("member taken away", lambda to: _work("DELETE", f"{path}/members/{to.login}"))
    for place in ("/members", "/memberships"):
        yield Case(place, lambda to, each=place: Request("GET", f"{here.org_path}{each}/{to.login}"))  # type: ignore[misc]
    for ending in ("", "/permission"):
        yield Case(
            f"collaborator{ending}",
            lambda to, each=ending: Request("GET", f"{here.repo_path}/collaborators/{to.login}{each}"),  # type: ignore[misc]
        )
    for kind in ("", "/orgs", "/repos", "/keys", "/gpg_keys"):
        yield Case(f"user{kind}", lambda to, each=kind: Request("GET", f"/users/{to.login}{each}"))  # type: ignore[misc]
    yield Case("user by number", lambda to: Request("GET", f"/user/{to.user_id}"))
    yield Case("organization by number", lambda to: Request("GET", f"/organizations/{to.organization_id}"))
    yield Case("repository by number", lambda to: Request("GET", f"/repositories/{to.repository_id}"))
    yield Case("organization", lambda to: Request("GET", f"/orgs/{to.organization}"))
    yield Case("repository", lambda to: Request("GET", f"/repos/{to.organization}/{to.repository}"))
    yield Case("membership", lambda to: Request("GET", f"/user/memberships/orgs/{to.organization}"))


def _lists(walls: Walls) -> Iterator[Case]:
    """Filters of lists."""
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
        "search": lambda to: _work("GET", "/search", q=to.word),
        "services": lambda to: _work("GET", "/services", organization=to.organization),
        "projects": lambda to: _work("GET", "/projects", organization=to.organization),
        "activity of somebody": lambda to: _work("GET", f"{path}/activity", actor=to.login),
    }.items():
        yield Case(title, ask)
        yield Case(title, ask, "client")


def _apps(walls: Walls) -> Iterator[Case]:
    """Webhooks, installations and tokens."""
    here, site = walls.site.here, walls.site
    own = site.hooks["repository", "classic"]["hook_id"]
    for path in (here.repo_path, here.org_path):
        for ending in ("", "/config", "/deliveries"):
            yield Case("hook", lambda to, at=path, each=ending: Request("GET", f"{at}/hooks/{to.hook}{each}"))  # type: ignore[misc]
        yield Case("ping", lambda to, at=path: Request("POST", f"{at}/hooks/{to.hook}/pings"))  # type: ignore[misc]
        yield Case("hook deleted", lambda to, at=path: Request("DELETE", f"{at}/hooks/{to.hook}"))  # type: ignore[misc]
        yield Case(
            "hook edited", lambda to, at=path: Request("PATCH", f"{at}/hooks/{to.hook}", {"json": {"active": False}})
        )  # type: ignore[misc]
    at = f"{here.repo_path}/hooks/{own}/deliveries"
    yield Case("delivery", lambda to: Request("GET", f"{at}/{to.delivery}"))
    yield Case("delivery again", lambda to: Request("POST", f"{at}/{to.delivery}/attempts"))
    yield Case("deliveries again", lambda to: Request("POST", f"{at}/redeliver", {"json": {"ids": [to.delivery]}}))
    spare, robot = site.apps["spare"], site.apps["here"]
    installed = f"{here.org_path}/installations"
    for method in ("PUT", "DELETE"):
        path = f"/user/installations/{spare.installation_id}/repositories"
        yield Case(
            "repository of an installation", lambda to, by=method, at=path: Request(by, f"{at}/{to.repository_id}")
        )  # type: ignore[misc]
        yield Case("suspended", lambda to, by=method: Request(by, f"{installed}/{to.installation}/suspended"))  # type: ignore[misc]
    yield Case("installation", lambda to: Request("GET", f"{installed}/{to.installation}"))
    yield Case("installation deleted", lambda to: Request("DELETE", f"{installed}/{to.installation}"))
    ids = lambda to: {"repository_ids": [to.repository_id]}  # noqa: E731
    yield Case(
        "installing", lambda to: Request("POST", installed, {"json": {"app": site.apps["idle"].slug, **ids(to)}})
    )
    yield Case("installed on", lambda to: Request("PATCH", f"{installed}/{spare.installation_id}", {"json": ids(to)}))
    tokens = f"/app/installations/{robot.installation_id}/access_tokens"
    yield Case("installation's token", lambda to: Request("POST", tokens, {"json": ids(to)}), "app")
    yield Case("its names", lambda to: Request("POST", tokens, {"json": {"repositories": [to.repository]}}), "app")
    fine = {"note": "New", "kind": "fine_grained", "permissions": {"work": "read"}}
    for more in (
        lambda to: {"organization": to.organization},
        lambda to: {"organization": here.organization, **ids(to)},
        lambda to: {"organization": here.organization, "repositories": [to.repository]},
    ):
        yield Case("token", lambda to, given=more: Request("POST", "/user/tokens", {"json": {**fine, **given(to)}}))  # type: ignore[misc]
    for query in (
        '{user(login:"LOGIN"){id}}',
        '{organization(login:"ORG"){id}}',
        '{repository(owner:"ORG",name:"REPO"){id}}',
    ):
        yield Case(query, lambda to, text=query: _graphql(text, to))  # type: ignore[misc]


def _graphql(query: str, to: Names) -> Request:
    for word, name in (("LOGIN", to.login), ("ORG", to.organization), ("REPO", to.repository)):
        query = query.replace(word, name)
    return Request("POST", "/graphql", {"json": {"query": query}})


def cases(walls: Walls) -> list[Case]:
    return [*_records(walls), *_people(walls), *_lists(walls), *_apps(walls)]


def without_names(text: str, names: Names) -> str:
    """The same text whatever the names in it were; what was asked for may be said back."""
    for field, name in sorted(asdict(names).items(), key=lambda each: -len(str(each[1]))):
        text = text.replace(str(name), f"<{field}>")
    return text
