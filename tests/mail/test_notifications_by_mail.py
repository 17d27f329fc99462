"""What people are told of by mail: who gets it, and what it says."""

from __future__ import annotations

from tests.mail.server import MailServer
from tests.work.studio import Caller, Studio


def address_of(person: Caller) -> str:
    return str(person.me["email"])


def test_who_is_mentioned_gets_a_message(studio: Studio, mail: MailServer) -> None:
    task_id = studio.task(title="Größe & <Form>")
    text = f"**Please** look, @{studio.member.login} <b>now</b>"
    comment = studio.owner.post(f"/tasks/{task_id}/task_comments", json={"text": text})["task_comment"]
    [got] = mail.wait_for(address_of(studio.member))
    assert got.sender == "work@studio.example"
    assert got["From"] == "Acme Studio <work@studio.example>"
    assert got["To"] == address_of(studio.member)
    assert got["Subject"] == "[Website] Größe & <Form>"
    assert "mentioned you in “Größe & <Form>”" in got.text
    link = f"{studio.server.url}/{studio.world.full_name}/tasks/{task_id}#comment-{comment['id']}"
    assert link in got.text
    assert f'href="{link}"' in got.part("html")
    assert "Größe &amp; &lt;Form&gt;" in got.part("html")
    assert mail.to("octo@example.com") == []  # nobody is told of their own act
