"""Notifications by e-mail: who gets them, and what they contain."""

from __future__ import annotations

from tests.mail.server import MailServer
from tests.work.studio import Caller, Studio


def address_of(person: Caller) -> str:
    return str(person.me["email"])


def test_a_mentioned_person_gets_a_message(studio: Studio, mail: MailServer) -> None:
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
    assert mail.to("octo@example.com") == []  # people are not notified of their own actions


def assign(studio: Studio, person: Caller, title: str = "Logo") -> str:
    task_id = studio.task(title=title)
    studio.owner.patch(f"/tasks/{task_id}", json={"assignees": [person.login]})
    return task_id


def test_messages_about_a_task_form_one_thread(studio: Studio, mail: MailServer) -> None:
    task_id = assign(studio, studio.member)
    studio.owner.post(f"/tasks/{task_id}/task_comments", json={"text": f"@{studio.member.login}"})
    first, second = mail.wait_for(address_of(studio.member), 2)
    assert first["Subject"] == second["Subject"] == "[Website] Logo"
    assert first["References"] == second["In-Reply-To"] == f"<task.{task_id}@studio.example>"
    assert first["Message-ID"] != second["Message-ID"]
    assert first["Auto-Submitted"] == "auto-generated"
    assert first.message["Date"].datetime.tzinfo is not None


def test_one_click_unsubscribes_from_a_kind(studio: Studio, mail: MailServer) -> None:
    assign(studio, studio.member, "First")
    [got] = mail.wait_for(address_of(studio.member))
    assert got["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    address = got["List-Unsubscribe"].strip("<>")
    anybody = studio.nobody.http
    shown = anybody.get(address)
    assert shown.status_code == 200
    assert "Assignments" in shown.text
    assert studio.member.login not in shown.text
    chosen = studio.member.get("/me/notification_settings")["notification_settings"]
    assert chosen["assignment"] == {"inbox": True, "email": True}  # viewing the page changes nothing

    done = anybody.post(address, data={"List-Unsubscribe": "One-Click"})
    assert done.status_code == 200
    chosen = studio.member.get("/me/notification_settings")["notification_settings"]
    assert chosen["assignment"] == {"inbox": True, "email": False}
    assert chosen["mention"] == {"inbox": True, "email": True}
    assert anybody.post(address).status_code == 200  # repeating it has no effect

    last = assign(studio, studio.member, "Third")
    studio.owner.post(f"/tasks/{last}/task_comments", json={"text": f"@{studio.member.login}"})
    assert "mentioned" in mail.wait_for(address_of(studio.member), 2)[-1].text
    assert all("Third” to you" not in each.text for each in mail.to(address_of(studio.member)))


def test_a_forged_unsubscribe_link_has_no_effect(studio: Studio, mail: MailServer) -> None:
    assign(studio, studio.member)
    [got] = mail.wait_for(address_of(studio.member))
    good = got["List-Unsubscribe"].strip("<>")
    anybody = studio.nobody.http
    start, _, signature = good.rpartition(".")
    token = start.rpartition("/")[2]
    user_id, _, kind = token.partition(".")
    others = [f"{int(user_id) + 1}.{kind}.{signature}", f"{user_id}.mention.{signature}", token, f"{token}.", "x.ä"]
    for forged in others:
        refused = anybody.post(f"/mail/unsubscribe/{forged}")
        assert refused.status_code == 404, forged
    chosen = studio.member.get("/me/notification_settings")["notification_settings"]
    assert all(each["email"] for each in chosen.values())


def test_inbox_and_mail_are_chosen_independently(studio: Studio, mail: MailServer) -> None:
    studio.member.patch("/me/notification_settings", json={"assignment": {"inbox": False}})
    chosen = studio.member.get("/me/notification_settings")["notification_settings"]
    assert chosen["assignment"] == {"inbox": False, "email": True}
    assign(studio, studio.member)
    mail.wait_for(address_of(studio.member))
    assert studio.member.get("/me/notifications")["notifications"] == []
