"""The blocks of the page on the audit log work as documented."""

from __future__ import annotations

import json
from pathlib import Path

from tests.docs.pages import blocks, parse_json_output
from tests.docs.reader import guided

ASK, LINES, COMMANDS = blocks("docs/operators/audit-log.md", "sh")
FROM_DAY = "2026-11-01"


def test_the_log_can_be_queried_and_exported(tmp_path: Path) -> None:
    with guided(tmp_path) as page:
        with page.server.client(page.token) as client:
            hook = {"name": "web", "active": False, "config": {"url": "http://127.0.0.1:9/"}}
            client.post("/orgs/acme/hooks", json=hook).raise_for_status()
        # The page's date may still be in the future here.
        [entry] = parse_json_output(page.shell.run(ASK.replace(FROM_DAY, "2020-01-01")))
        assert (entry["action"], entry["actor"]) == ("hook.create", "octo")
        streamed = [json.loads(line) for line in page.shell.run(LINES).splitlines() if line.startswith("{")]
        assert entry in streamed
        export, listing = COMMANDS.strip().splitlines()
        assert "audit.jsonl" in page.shell.run(export.replace(FROM_DAY, "2020-01-01"))
        written = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
        assert written == streamed
        assert "hook.create" in page.shell.run(listing)
