"""The examples for publishing, webhooks, the work API and GitHub's clients work as documented."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import octokit
from tests.docs.pages import Program, Shell, blocks, parse_json_output
from tests.docs.reader import Guided, guided
from tests.harness.receiver import Receiver, Reply
from tests.harness.waiting import until
from workhook.core.clock import now_ms, to_millis_text

PUBLISH, DISPATCH, GIT_HOOK, LOCAL_GIT_HOOK = blocks("docs/integrators/publish.md", "sh")
REPLAY, ROTATE = blocks("docs/integrators/webhooks.md", "sh")
INVITE, FOLLOW, GO_ON, BULK = blocks("docs/integrators/work-api.md", "sh")
[PYGITHUB] = blocks("docs/integrators/github-clients.md", "python")
[OCTOKIT] = blocks("docs/integrators/github-clients.md", "js")
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guided]:
    with guided(tmp_path_factory.mktemp("how-to")) as page:
        yield page


@pytest.fixture
def shell(page: Guided, receiver: Receiver, tmp_path: Path) -> Iterator[Shell]:
    """Yield a shell with $W, $A and so on set as on the page, a task, and two webhooks for all events of its own."""
    api = f"/api/v1/projects/{page.project}"
    with page.server.client(page.token) as client:

        def made(path: str, **fields: Any) -> Any:
            return client.post(path, json=fields).raise_for_status().json()

        column = made(f"{api}/columns", title="To do")["column"]["id"]
        task = made(f"/api/v1/columns/{column}/tasks", title="Logo")["task"]["id"]
        hooks = [
            made("/repos/acme/website/hooks", config={"url": url, "content_type": "json", "retries": "0"}, events=["*"])
            for url in (receiver.url, f"{receiver.url}/second")
        ]
        known = {"API": f"{page.server.url}/api/v1", "PROJECT": page.project, "COLUMN": column, "TASK": task}
        known["HOOK"] = str(hooks[1]["id"])
        shell = Shell(tmp_path, {**page.shell.environment, **known})
        yield shell
        shell.stop()
        for each in hooks:
            client.delete(f"/repos/acme/website/hooks/{each['id']}").raise_for_status()


def test_github_clients_connect(page: Guided) -> None:
    told: dict[str, Any] = {"token": page.token}
    exec(PYGITHUB.replace("http://127.0.0.1:8000", page.server.url), told)  # the page's own example
    with told["github"] as github:
        assert github.get_user().login == "octo"
    begin = f'import {{ Octokit }} from "@octokit/rest";\nconst token = "{page.token}";\n'
    ask = "console.log((await octokit.rest.users.getAuthenticated()).data.login);"
    assert octokit.run_text(begin + OCTOKIT.replace("http://127.0.0.1:8000", page.server.url) + ask) == "octo\n"


def test_publishing_an_id_again_changes_nothing(shell: Shell, receiver: Receiver) -> None:
    assert parse_json_output(shell.run(PUBLISH)) == {"id": "ci-4711", "deliveries": 2}
    assert parse_json_output(shell.run(PUBLISH)) == {"id": "ci-4711", "deliveries": 2}
    receiver.wait_for(lambda requests: len([each for each in requests if each.event == "deployment_status"]) == 2)


def test_a_custom_event_can_be_published(shell: Shell, receiver: Receiver) -> None:
    shell.run(DISPATCH)
    kind = "repository_dispatch"
    sent = receiver.wait_for(lambda requests: len([each for each in requests if each.event == kind]) == 2)
    payloads = [each.payload() for each in sent if each.event == kind]
    assert {(each["action"], each["client_payload"]["order"]) for each in payloads} == {("order.paid", 4711)}


def test_the_git_hook_can_be_installed(shell: Shell, tmp_path: Path) -> None:
    bare = tmp_path / "website.git"
    shell.run(f"git init --quiet --bare {bare}")
    for block in (GIT_HOOK.replace("whp_…", '"${A#*Bearer }"'), LOCAL_GIT_HOOK):
        assert "installed" in shell.run(block.replace("/srv/git/website.git", str(bare)))
        assert (bare / "hooks" / "post-receive").exists()


def test_a_secret_can_be_rotated(shell: Shell, receiver: Receiver) -> None:
    assert '"secret":"********"' in shell.run(ROTATE)
    shell.run('curl -s -X POST -H "$A" $W/repos/acme/website/hooks/$HOOK/pings')
    receiver.wait_for(lambda requests: any("x-hub-signature-256" in each.headers for each in requests))


def test_failed_deliveries_can_be_replayed(shell: Shell, receiver: Receiver) -> None:
    receiver.wait_for(2)
    receiver.reply = lambda received: Reply(500)
    shell.run(PUBLISH.replace("ci-4711", "ci-4712"))
    deliveries = 'curl -s -H "$A" "$W/repos/acme/website/hooks/$HOOK/deliveries?status=failure"'
    until(lambda: "deployment_status" in shell.run(deliveries))
    receiver.reply = lambda received: Reply(200)
    written = re.search(r'"since": "([^"]+)"', REPLAY)
    assert written
    replay = REPLAY.replace(written[1], to_millis_text(now_ms() - HOUR_MS))
    assert parse_json_output(shell.run(replay))["queued"] == 1
    again = receiver.wait_for(lambda requests: len([e for e in requests if e.event == "deployment_status"]) == 3)
    guids = Counter(each.guid for each in again if each.event == "deployment_status")
    assert sorted(guids.values()) == [1, 2]  # the other webhook's deliveries may arrive last


def test_a_client_can_be_invited(shell: Shell) -> None:
    invited = parse_json_output(shell.run(INVITE))
    assert invited["client"] is None
    shell.run("workhook user add --login ada --email ada@example.org")
    [token] = re.findall(r"whp_\w+", shell.run("workhook token create --user ada --scopes work,repo"))
    number = invited["invitation"]["id"]
    shell.run(f'curl -s -X PATCH -H "Authorization: Bearer {token}" $W/user/repository_invitations/{number}')
    [client] = parse_json_output(shell.run('curl -s -H "$A" $API/projects/$PROJECT/clients'))["clients"]
    assert client["username"] == "ada"

    def status(path: str, token: str = token) -> str:
        return shell.run(
            f'curl -s -o /dev/null -w "%{{http_code}}" -H "Authorization: Bearer {token}" $API{path}'
        ).strip()

    seen = {each: status(f"/projects/$PROJECT/{each}") for each in ("columns", "tasks", "files", "invoices")}
    assert set(seen.values()) == {"200"}
    assert status("/projects/$PROJECT/service_checkouts") == "200"
    hidden = {each: status(f"/projects/$PROJECT/{each}") for each in ("timesheets", "task_credits")}
    assert set(hidden.values()) == {"404"}
    assert status("/projects/$PROJECT/activity") == "403"
    shell.run(f'curl -s -X DELETE -H "$A" $API/clients/{client["id"]}')
    assert status("/projects/$PROJECT/tasks") == "404"


def test_a_project_can_be_followed(shell: Shell, tmp_path: Path) -> None:
    first = Program(["bash", "-c", FOLLOW], tmp_path, shell.environment)
    try:
        first.wait_for("^id: ")
        shell.run('curl -s -X PATCH -H "$A" $API/tasks/$TASK -d \'{"title": "Signet"}\'')
        first.wait_for("^event: task")
        number = first.wait_for("^id: ", first.lines.index("event: task\n") - 1).split()[1]
        assert '"Signet"' in first.wait_for("^data: ")
    finally:
        first.stop()
    shell.run('curl -s -X PATCH -H "$A" $API/tasks/$TASK -d \'{"title": "Mark"}\'')
    again = Program(["bash", "-c", GO_ON.replace("4711", number)], tmp_path, shell.environment)
    try:
        assert '"Mark"' in again.wait_for("^data: ")
    finally:
        again.stop()


def test_tasks_can_be_changed_in_bulk(shell: Shell) -> None:
    done = parse_json_output(shell.run(BULK))
    assert [each["title"] for each in done["tasks"]] == ["Photos", "Logo", "Logo"]
    assert done["tasks"][1]["priority"] == "high"
    assert parse_json_output(shell.run(BULK)) == done
    wrong = parse_json_output(shell.run(BULK.replace("monday-7", "monday-8").replace('"High"', '"Highest"')))
    assert wrong["errors"][0]["field"] == "operations[1].priority"
