"""The page on apps works as documented: registering and installing by command, using curl, PyGithub and Octokit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.clients import octokit
from tests.docs.pages import blocks, parse_json_output
from tests.docs.reader import guided
from tests.harness.receiver import Receiver

CREATE, INSTALL, SHOW, FIND, MAKE, USE = blocks("docs/integrators/apps.md", "sh")
[PYGITHUB] = blocks("docs/integrators/apps.md", "python")
[OCTOKIT] = blocks("docs/integrators/apps.md", "js")


def test_an_app_is_created_installed_and_used(receiver: Receiver, tmp_path: Path) -> None:
    with guided(tmp_path) as page:
        shell = page.shell
        [client_id] = re.findall(r"Iv23li\w{14}", shell.run(CREATE))
        key = tmp_path / "time-keeper.pem"
        assert key.stat().st_mode & 0o777 == 0o600
        assert "selected" in shell.run(INSTALL)

        shell.run(f"CLIENT_ID={client_id}")
        assert parse_json_output(shell.run(SHOW))["slug"] == "time-keeper"
        installation = parse_json_output(shell.run(FIND))["id"]
        made = parse_json_output(shell.run(f"INSTALLATION={installation}\n{MAKE}"))
        assert (made["permissions"], made["repository_selection"]) == ({"work": "read"}, "selected")
        reached, projects, given_back = USE.strip().split("\n")
        shell.run(f"TOKEN={made['token']}")
        assert parse_json_output(shell.run(reached))["total_count"] == 1
        assert '"Website"' in shell.run(projects)
        shell.run(given_back)
        assert parse_json_output(shell.run(reached))["message"] == "Bad credentials"

        def here(program: str) -> str:
            return program.replace("Iv23li…", client_id).replace("http://127.0.0.1:8000", page.server.url)

        program = here(PYGITHUB).replace("https://example.com/webhook", receiver.url)
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        [ping] = receiver.wait_for(1)
        assert ping.headers["x-service-hook-id"] == done.stdout.strip()
        assert ping.payload()["sender"]["login"] == "time-keeper[bot]"

        program = here(OCTOKIT).replace("installationId: 1 ", f"installationId: {installation} ")
        asked = 'const reached = await octokit.request("GET /installation/repositories");'
        told = "console.log(reached.data.repositories.map((each) => each.full_name).join());"
        given = f"const privateKey = {json.dumps(key.read_text())};"
        assert octokit.run_text(
            "\n".join([program, asked, told]).replace("const octokit", f"{given}\nconst octokit")
        ) == ("acme/website\n")
