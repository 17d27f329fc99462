"""The blocks of the page on tokens work as documented."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import blocks, parse_json_output
from tests.docs.reader import guided
from tests.harness.waiting import until

CREATE, ASK, REVOKE = blocks("docs/integrators/tokens.md", "sh")
TOKEN = re.compile(r"(?:whp|workhook_pat)_[0-9A-Za-z]{36}")


def test_tokens_are_created_listed_and_revoked(tmp_path: Path) -> None:
    with guided(tmp_path) as page:
        said = page.shell.run(CREATE)
        classic, confined = TOKEN.findall(said)
        assert (classic[:4], confined[:13]) == ("whp_", "workhook_pat_")
        assert "work=read, repository_hooks=write" in said
        said = page.shell.run(ASK)
        assert len(TOKEN.findall(said)) == 2
        listed = parse_json_output(said[said.rindex("[{") :])
        assert [each["kind"] for each in listed] == ["fine_grained", "classic", "fine_grained", "classic", "classic"]
        newest = listed[0]["id"]
        with page.server.client(TOKEN.findall(said)[1]) as client:
            assert client.get("/repos/acme/website/hooks").status_code == 200
            delete, revoke = REVOKE.strip().splitlines()
            page.shell.run(delete.replace("$ID", str(newest)))
            assert client.get("/repos/acme/website/hooks").status_code == 401
        with page.server.client(classic) as client:
            assert client.get("/user").status_code == 200
            assert "revoked the token" in page.shell.run(revoke.replace("$ID", str(listed[3]["id"])))
            until(lambda: client.get("/user").status_code == 401)
