"""The invoices of a project: lists, forms, and the access of each role."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.harness.server import Server
from tests.web.browser import Browser, Form, forms
from tests.web.places_kit import add_in, signed_in
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, send, text_of, undo
from tests.work.paper import as_shown


def draft_in(studio: Studio) -> str:
    items = [{"description": HOSTILE, "qty": 1.5, "unit_price": 1000.01}]
    body = {"currency": "EUR", "tax": 19, "bill_to": HOSTILE, "invoice_items": items}
    return str(studio.call("POST", f"{studio.project}/invoices", **body)["invoice"]["id"])


def test_an_invoice_goes_from_draft_to_paid(studio: Studio) -> None:
    base = f"{studio.base}/billing"
    assert "No invoices yet." in text_of(page_of(studio.member, base))
    path = f"{base}/{draft_in(studio)}"
    for page in (page_of(studio.member, base), page_of(studio.member, path)):
        assert "<img" not in page[page.index("<main") :]
        assert HOSTILE in text_of(page)
        assert "1,785.02 EUR" in text_of(page)
    assert send(studio.member, f"{path}/payments", was="0/0").status_code == 409
    for step, seen in (("send", "Open"), ("payments", "Paid")):
        answer = send(studio.member, f"{path}/{step}", was="0/0")
        assert (answer.status_code, answer.headers["location"].partition("#")[0]) == (303, path), answer.text
        assert seen in text_of(page_of(studio.member, path))
    assert send(studio.owner, f"{path}/void").status_code == 409


def test_without_a_mail_server_the_page_says_that_nothing_was_emailed(studio: Studio) -> None:
    path = f"{studio.base}/billing/{draft_in(studio)}"
    words = "Not e-mailed. Download the PDF to send it yourself. E-mail isn’t set up on this server."
    assert words not in text_of(page_of(studio.member, path))
    send(studio.owner, f"{path}/send")
    assert words in text_of(page_of(studio.member, path))
    assert "Not e-mailed" not in text_of(page_of(studio.client, path))
    send(studio.owner, f"{path}/void")
    assert words not in text_of(page_of(studio.member, path))


def test_an_issued_invoice_is_voided(studio: Studio) -> None:
    path = f"{studio.base}/billing/{draft_in(studio)}"
    send(studio.owner, f"{path}/send")
    assert send(studio.owner, f"{path}/void").status_code == 303
    assert "Void" in text_of(page_of(studio.owner, path))


def test_clients_see_issued_invoices_and_cannot_change_them(studio: Studio) -> None:
    base = f"{studio.base}/billing"
    path = f"{base}/{draft_in(studio)}"
    assert "No invoices yet." in text_of(page_of(studio.client, base))
    assert studio.client.get(path).status_code == 404
    assert studio.client.get(f"{path}/pdf").status_code == 404
    send(studio.owner, f"{path}/send")
    for form in ("Record payment", "Issue credit note"):
        assert form not in page_of(studio.client, path)
    assert send(studio.client, f"{path}/payments", was="0/0").status_code == 403
    assert send(studio.client, f"{path}/credit_notes", was="0/0", reason="x").status_code == 403
    assert studio.client.get(f"{path}/pdf").content.startswith(b"%PDF")


def test_strangers_cannot_see_invoices(server: Server, studio: Studio) -> None:
    invoice = draft_in(studio)
    with open_studio(server) as other:
        for base in (studio.base, other.base):
            assert other.owner.get(f"{base}/billing/{invoice}").status_code == 404
            assert other.owner.get(f"{base}/billing/{invoice}/pdf").status_code == 404
            assert send(other.owner, f"{base}/billing/{invoice}/send").status_code == 404


def test_readers_cannot_change_invoices(server: Server, studio: Studio) -> None:
    path = f"{studio.base}/billing/{draft_in(studio)}"
    with signed_in(server, add_in(server, studio.team.world, "read")) as reader:
        assert "Issue invoice" not in page_of(reader, path)
        assert send(reader, f"{path}/send").status_code == 403
    assert "Issue invoice" in page_of(studio.member, path)


# --- drafts ----------------------------------------------------------------------------------------------------------


def made_draft(studio: Studio, **fields: str) -> str:
    """Create a draft with the form and return its address."""
    path = f"{studio.base}/billing/new"
    answer = studio.member.fill(path, **{"bill_to": "Acme", "currency": "EUR", **fields})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def invoice_of(studio: Studio, path: str) -> dict[str, Any]:
    found: dict[str, Any] = studio.call("GET", f"/invoices/{path.rpartition('/')[2]}")["invoice"]
    return found


def line_form(browser: Browser, path: str, number: int) -> Form:
    return browser.form(f"{path}/lines/{number}")


def add_lines(studio: Studio, path: str, *descriptions: str) -> None:
    for each in descriptions:
        answer = send(studio.member, f"{path}/lines", description=each, qty="1", unit_price="10")
        assert answer.status_code == 303, answer.text


def described(studio: Studio, path: str) -> list[str]:
    return [each["description"] for each in invoice_of(studio, path)["invoice_items"]]


def test_a_draft_with_lines_is_created_changed_and_deleted(studio: Studio) -> None:
    assert "New invoice" in page_of(studio.member, f"{studio.base}/billing")
    path = made_draft(studio, due="2030-02-01", tax="7.7 %", address="Main Street 1\r\nSpringfield")
    invoice = invoice_of(studio, path)
    assert (invoice["bill_to"], invoice["currency"], invoice["tax"]) == ("Acme", "EUR", 7.7)
    assert (invoice["address"], invoice["due"][:10]) == ("Main Street 1\nSpringfield", "2030-02-01")
    answer = studio.member.fill(path, f"{path}/lines", description="Design", qty="1.5", unit_price="1,250.00")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}#lines")
    assert "2,019.38 EUR" in text_of(page_of(studio.member, path))
    form = line_form(studio.member, path, 1)
    answer = studio.member.post(form.action, {**form.fields, "description": "Drawing", "qty": "2", "unit_price": "9"})
    assert answer.status_code == 303, answer.text
    assert invoice_of(studio, path)["invoice_items"] == as_shown(
        [{"description": "Drawing", "qty": 2, "unit_price": 9}]
    )
    answer = studio.member.fill(f"{path}/edit", bill_to="Acme Ltd.", currency="EUR", tax="")
    assert answer.status_code == 303, answer.text
    invoice = invoice_of(studio, path)
    assert (invoice["bill_to"], invoice["tax"], invoice["total"]) == ("Acme Ltd.", None, 18)
    answer = studio.member.fill(path, f"{path}/delete")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{studio.base}/billing")
    assert studio.member.get(path).status_code == 404


def new_form(studio: Studio) -> dict[str, str]:
    """Return the initial values of the form for a new invoice."""
    path = f"{studio.base}/billing/new"
    areas = re.findall(r'<textarea id="(\w+)"[^>]*>\n(.*?)</textarea>', page_of(studio.member, path), re.S)
    return {**studio.member.form(path).fields, **{name: html.unescape(text) for name, text in areas}}


def test_a_new_invoice_starts_with_the_details_of_the_last_one(server: Server, studio: Studio) -> None:
    fresh = new_form(studio)
    assert fresh["bill_to"].splitlines()[-1] == studio.team.client.email  # the only client of the project
    assert fresh["currency"] == "USD"
    made_draft(studio, bill_to="Acme", address="Main Street 1", tax="19", payment_method="IBAN DE02")
    again = new_form(studio)
    assert {each: again[each] for each in ("bill_to", "address", "currency", "payment_method")} == {
        "bill_to": "Acme", "address": "Main Street 1", "currency": "EUR", "payment_method": "IBAN DE02",
    }  # fmt: skip
    with open_studio(server) as other:
        theirs = new_form(other)
        assert (theirs["currency"], theirs["bill_to"].splitlines()[-1]) == ("USD", other.team.client.email)


def test_the_form_and_the_api_have_the_same_defaults(studio: Studio) -> None:
    """Tax and currency come from the billing settings, with no tax and the last used currency as fallbacks."""
    made_draft(studio, tax="19", currency="CHF")
    items = [{"description": "Design", "qty": 1, "unit_price": 10}]
    for billing, tax in (({}, None), ({"tax": 7, "currency": "EUR", "language": "de"}, 7)):
        if billing:
            studio.call("PATCH", f"/organizations/{studio.team.world.organization}/billing", **billing)
        made = studio.call("POST", f"{studio.project}/invoices", invoice_items=items)["invoice"]
        form = new_form(studio)
        assert (made["tax"], made["currency"]) == (tax, form["currency"])
        assert form["tax"] == ("" if tax is None else str(tax))
        assert form["language"] == made["language"]


def test_the_default_currency_is_the_last_one_used_in_the_organization(studio: Studio) -> None:
    services = f"/{studio.team.world.organization}/-/services/new"
    assert studio.owner.form(services).fields["currency"] == "EUR"
    body = {"title": "Other", "organization": studio.team.world.organization}
    other = studio.call("POST", "/projects", **body)["project"]["id"]
    items = [{"description": "Design", "qty": 1, "unit_price": 10}]
    drawn = studio.call("POST", f"/projects/{other}/invoices", currency="CHF", invoice_items=items)
    invoice = drawn["invoice"]["id"]
    assert new_form(studio)["currency"] == "USD"  # a draft does not count as used
    studio.call("POST", f"/invoices/{invoice}/send")
    assert new_form(studio)["currency"] == "CHF"
    assert studio.owner.form(services).fields["currency"] == "CHF"


def test_an_invoice_of_tracked_time_starts_with_the_details_of_the_last_one(studio: Studio) -> None:
    studio.call("PATCH", f"/organizations/{studio.team.world.organization}/billing", tax=7)
    made_draft(studio, bill_to="Acme", tax="19")
    task = studio.add_task(studio.add_column("To do"), "Drawn")
    given = {"task_id": task, "start_time": "2026-01-05T09:00:00Z", "duration": 3_600_000, "notes": "Wireframes"}
    studio.call("POST", f"{studio.project}/timesheets", **given, billable=True, billable_rate=80)
    period = {"from": "2026-01-05", "to": "2026-01-05"}
    answer = send(studio.member, f"{studio.base}/time/report/invoice", **period)
    assert answer.status_code == 303, answer.text
    invoice = invoice_of(studio, answer.headers["location"])
    assert (invoice["bill_to"], invoice["tax"], invoice["currency"]) == ("Acme", 7, "EUR")
    assert invoice["invoice_items"][0]["description"] == "Drawn (5 Jan 2026): Wireframes"


def test_an_invoice_is_overdue_on_the_day_after_its_due_date(studio: Studio) -> None:
    began = None
    while began != datetime.now(UTC).date():  # repeated if midnight passed meanwhile
        began = datetime.now(UTC).date()
        shown = []
        for days in (0, 1):
            invoice_id = made_draft(studio).rpartition("/")[2]
            add_lines(studio, f"{studio.base}/billing/{invoice_id}", "One")
            studio.call("PATCH", f"/invoices/{invoice_id}", due=(began - timedelta(days=days)).isoformat())
            studio.call("POST", f"/invoices/{invoice_id}/send")
            shown.append(text_of(page_of(studio.member, f"{studio.base}/billing/{invoice_id}")))
    assert ["Overdue" in each for each in shown] == [False, True]


def test_an_invoice_shows_the_seller_and_its_subtotal(studio: Studio) -> None:
    path = f"{studio.base}/billing/{draft_in(studio)}"
    text = text_of(page_of(studio.member, path))
    assert "Subtotal: 1,500.02 EUR" in text
    assert "From Acme Bill to" in text
    assert "emoji" not in text
    studio.call("PATCH", f"/invoices/{path.rpartition('/')[2]}", bill_from="Studio 🎨\nMain Street 1")
    text = text_of(page_of(studio.member, path))
    assert "Main Street 1" in text
    assert "These emoji won’t appear in the PDF: 🎨" in text


def test_issuing_an_invoice_that_is_already_overdue_needs_confirmation(studio: Studio) -> None:
    path = made_draft(studio, due="2020-01-01")
    add_lines(studio, path, "One")
    assert "has already passed" in text_of(page_of(studio.member, path))
    studio.call("PATCH", f"/invoices/{path.rpartition('/')[2]}", due="2090-01-01")
    assert "overdue" not in text_of(page_of(studio.member, path))


def test_irreversible_steps_need_confirmation(studio: Studio) -> None:
    path = made_draft(studio, bill_to="")

    def asked(step: str) -> bool:
        return f'</summary>\n      <form method="post" action="{path}/{step}">' in page_of(studio.member, path)

    assert f"{path}/send" not in page_of(studio.member, path)
    assert "Add line items to issue this invoice" in text_of(page_of(studio.member, path))
    add_lines(studio, path, "One")
    assert asked("send")
    assert "The recipient is missing." in text_of(page_of(studio.member, path))
    send(studio.member, f"{path}/send")
    assert asked("void")


def test_the_list_shows_the_outstanding_amounts(studio: Studio) -> None:
    first, second = made_draft(studio, due="2090-01-01"), made_draft(studio, bill_to="", currency="USD")
    for path in (first, second):
        add_lines(studio, path, "One")
    base = f"{studio.base}/billing"
    assert "Open:" not in text_of(page_of(studio.member, base))
    send(studio.member, f"{first}/send")
    send(studio.member, f"{second}/send")
    text = text_of(page_of(studio.client, base))
    assert "Outstanding: 10.00 EUR , 10.00 USD" in text
    assert "due Jan 1, 2090" in text
    assert "no recipient" in text
    send(studio.member, f"{first}/payments", was="0/0", amount="4.00")
    assert "Outstanding: 6.00 EUR , 10.00 USD" in text_of(page_of(studio.client, base))
    assert "6.00 EUR due" in text_of(page_of(studio.client, base))
    send(studio.member, f"{first}/payments", was="400/0")
    assert "Outstanding: 10.00 USD" in text_of(page_of(studio.client, base))


def test_the_newest_invoice_is_first(studio: Studio) -> None:
    for name in ("First one", "Second one", "Third one"):
        made_draft(studio, bill_to=name)
    text = text_of(page_of(studio.member, f"{studio.base}/billing"))
    assert text.index("Third one") < text.index("Second one") < text.index("First one")


def test_a_refused_form_keeps_the_input(studio: Studio) -> None:
    path = f"{studio.base}/billing/new"
    answer = studio.member.fill(path, bill_to=HOSTILE, currency="EUR", tax="a lot")
    assert answer.status_code == 422
    assert answer.text.count("“a lot” is not a number. Enter a number such as 1.5.") == 1
    assert 'aria-describedby="tax-fault"' in answer.text
    assert HOSTILE in text_of(answer.text)
    path = made_draft(studio)
    for typed, said in (
        ({"unit_price": "ten"}, "“ten” is not an amount. Enter one such as 1250.00."),
        ({"unit_price": "1.250"}, "“1.250” has more than two decimal places"),
        ({"unit_price": "-1"}, "Unit price must be a number of at least 0"),
        ({"unit_price": "9" * 30}, "Unit price must be a number from 0 to 20000000000000"),
        ({"qty": "0"}, "Quantity must be a number greater than 0"),
        ({"qty": "1.2345678"}, "with at most six decimal places"),
        ({"qty": ""}, "Quantity is required"),
        ({"description": " "}, "Description must have 1 to 4000 characters"),
    ):
        fields = {"description": "Kept as it is", "qty": "3", "unit_price": "7", **typed}
        answer = studio.member.fill(path, f"{path}/lines", **fields)
        assert answer.status_code == 422, typed
        assert said in text_of(answer.text)
        for name, value in fields.items():
            assert value.strip() in answer.text, name
    assert described(studio, path) == []


def test_all_errors_in_a_line_are_reported_at_once(studio: Studio) -> None:
    path = made_draft(studio)
    answer = studio.member.fill(path, f"{path}/lines", description="", qty="x", unit_price="y")
    text = text_of(answer.text)
    assert answer.status_code == 422
    for said in ("“x” is not a number", "“y” is not an amount", "Description is required"):
        assert said in text
    assert "Quantity is required" not in text


@pytest.mark.parametrize(
    ("language", "typed", "price", "shown"),
    [
        ("en", "1,250.00", 1250, "1250.00"),
        ("en", "250", 250, "250.00"),
        ("en", "1'234.5", 1234.5, "1234.50"),
        ("de", "1.250,00", 1250, "1250,00"),
        ("de", "1.250", 1250, "1250,00"),
        ("de", "1250,5", 1250.5, "1250,50"),
        ("de", "99 999 999 999,99", 99999999999.99, "99999999999,99"),
    ],
)
def test_amounts_are_accepted_in_local_notation(
    studio: Studio, language: str, typed: str, price: float, shown: str
) -> None:
    path = made_draft(studio)
    studio.member.client.cookies.set("workhook_language", language)
    half = "0,5" if language == "de" else "0.5"
    assert send(studio.member, f"{path}/lines", description="x", qty=half, unit_price=typed).status_code == 303
    assert invoice_of(studio, path)["invoice_items"] == as_shown(
        [{"description": "x", "qty": 0.5, "unit_price": price}]
    )
    form = line_form(studio.member, path, 1)
    assert (form.fields["unit_price"], form.fields["qty"]) == (shown, half)
    assert studio.member.post(form.action, {**form.fields, "description": "y"}).status_code == 303
    assert invoice_of(studio, path)["invoice_items"] == as_shown(
        [{"description": "y", "qty": 0.5, "unit_price": price}]
    )


def test_a_removed_line_is_restored_at_its_place(studio: Studio) -> None:
    path = made_draft(studio)
    add_lines(studio, path, "One", "Two", "Three")
    [form] = [each for each in forms(studio.member.get(path)) if each.action == f"{path}/lines/2/remove"]
    answer = studio.member.post(form.action, form.fields)
    assert described(studio, path) == ["One", "Three"]
    assert undo(studio.member, answer).status_code == 303
    assert described(studio, path) == ["One", "Two", "Three"]


def test_time_on_a_removed_line_can_be_invoiced_again(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Drawn")
    body = {"task_id": task, "duration": 5_400_000, "billable": True, "billable_rate": 80}
    ids = [studio.call("POST", f"{studio.project}/timesheets", **body)["timesheet"]["id"] for _ in range(2)]
    made = studio.call("POST", f"{studio.project}/invoices", timesheet_ids=ids)["invoice"]["id"]
    path = f"{studio.base}/billing/{made}"

    def held(timesheet: str) -> bool:
        return "This time entry is on an invoice." in page_of(studio.owner, f"{studio.base}/time/{timesheet}")

    assert all(held(each) for each in ids)
    form = next(each for each in forms(studio.member.get(path)) if each.action == f"{path}/lines/1/remove")
    answer = studio.member.post(form.action, form.fields)
    assert sum(held(each) for each in ids) == 1
    assert len(described(studio, path)) == 1
    assert undo(studio.member, answer).status_code == 303
    assert all(held(each) for each in ids)
    assert len(described(studio, path)) == 2


# --- concurrent changes ----------------------------------------------------------------------------------------------


def test_input_is_kept_if_another_user_changed_the_draft(studio: Studio) -> None:
    path = made_draft(studio)
    form = studio.member.form(f"{path}/edit")
    assert studio.owner.fill(f"{path}/edit", bill_to="Theirs", currency="EUR").status_code == 303
    answer = studio.member.post(form.action, {**form.fields, "bill_to": "Mine", "currency": "EUR", "due": "2031-01-01"})
    assert answer.status_code == 409
    text = text_of(answer.text)
    assert "Someone else changed this while you were editing." in text
    assert "Current value: Theirs" in text
    assert "Mine" in text
    assert invoice_of(studio, path)["bill_to"] == "Theirs"
    [again] = [each for each in forms(answer) if each.action == form.action]
    typed = {"bill_to": "Mine", "currency": "EUR", "due": "2031-01-01"}
    assert again.fields["due"] == "2031-01-01"
    assert studio.member.post(again.action, {**again.fields, **typed}).status_code == 303
    assert invoice_of(studio, path)["bill_to"] == "Mine"


def test_a_line_that_moved_is_still_found(studio: Studio) -> None:
    path = made_draft(studio)
    add_lines(studio, path, "One", "Two", "Three")
    form = line_form(studio.member, path, 2)
    gone = next(each for each in forms(studio.owner.get(path)) if each.action == f"{path}/lines/1/remove")
    assert studio.owner.post(gone.action, gone.fields).status_code == 303
    answer = studio.member.post(form.action, {**form.fields, "description": "Two, changed"})
    assert answer.status_code == 303, answer.text
    assert described(studio, path) == ["Two, changed", "Three"]


def test_a_line_changed_or_removed_by_another_user_is_a_conflict(studio: Studio) -> None:
    path = made_draft(studio)
    add_lines(studio, path, "One")
    form = line_form(studio.member, path, 1)
    other = line_form(studio.owner, path, 1)
    assert studio.owner.post(other.action, {**other.fields, "description": "Theirs"}).status_code == 303
    answer = studio.member.post(form.action, {**form.fields, "description": "Mine"})
    assert answer.status_code == 409
    assert "Current value: Theirs" in text_of(answer.text)
    gone = next(each for each in forms(studio.owner.get(path)) if each.action == f"{path}/lines/1/remove")
    assert studio.owner.post(gone.action, gone.fields).status_code == 303
    [again] = [each for each in forms(answer) if each.action == form.action]
    answer = studio.member.post(again.action, {**again.fields, "description": "Mine"})
    assert (answer.status_code, "removed this while" in answer.text) == (409, True)
    [again] = [each for each in forms(answer) if each.action == form.action]
    answer = studio.member.post(again.action, {**again.fields, "description": "Mine"})
    assert answer.status_code == 303, answer.text
    assert described(studio, path) == ["Mine"]


def test_lines_of_an_issued_invoice_cannot_be_changed(studio: Studio) -> None:
    path = made_draft(studio)
    add_lines(studio, path, "One")
    line, details = line_form(studio.member, path, 1), studio.member.form(f"{path}/edit")
    removal = next(each for each in forms(studio.member.get(path)) if each.action == f"{path}/lines/1/remove")
    assert send(studio.owner, f"{path}/send").status_code == 303
    page = page_of(studio.member, path)
    assert "/lines" not in page.replace("#lines", "")
    assert f"{path}/delete" not in page
    assert studio.member.get(f"{path}/lines/1").status_code == 404
    rule = "This invoice has been issued. Its parties, line items, tax, currency, and number can’t be changed."
    new = {"description": "Late one", "qty": "1", "unit_price": "5"}
    for answer in (
        studio.member.post(line.action, {**line.fields, "description": "Late one"}),
        send(studio.member, f"{path}/lines", **new),
        studio.member.post(details.action, {**details.fields, "bill_to": "Late one", "currency": "USD"}),
    ):
        assert answer.status_code == 409
        assert rule in text_of(answer.text)
        assert "Late one" in answer.text
    answer = studio.member.post(removal.action, removal.fields)
    assert (answer.status_code, rule in text_of(answer.text)) == (409, True)
    assert send(studio.member, f"{path}/delete").status_code == 409
    assert described(studio, path) == ["One"]


def test_payment_terms_of_an_issued_invoice_can_be_changed(studio: Studio) -> None:
    path = made_draft(studio)
    add_lines(studio, path, "One")
    stale = studio.member.form(f"{path}/edit")
    send(studio.owner, f"{path}/send")
    answer = studio.member.post(stale.action, {**stale.fields, "payment_terms": "At once", "currency": "EUR"})
    assert answer.status_code == 409  # the stale form shows fields that can no longer be changed
    form = studio.member.form(f"{path}/edit")
    assert not {"currency", "bill_to", "address", "bill_from"} & set(form.fields)
    assert studio.member.post(form.action, {**form.fields, "payment_terms": "At once"}).status_code == 303
    assert invoice_of(studio, path)["payment_terms"] == "At once"
    send(studio.owner, f"{path}/void")
    assert studio.member.get(f"{path}/edit").status_code == 303


def test_a_client_cannot_create_or_change_invoices(studio: Studio) -> None:
    path = made_draft(studio)
    add_lines(studio, path, "One")
    base = f"{studio.base}/billing"
    assert "New invoice" not in page_of(studio.client, base)
    assert studio.client.get(f"{base}/new").status_code == 403
    for action in ("edit", "lines", "lines/1", "lines/1/remove", "times", "delete"):
        assert send(studio.client, f"{path}/{action}").status_code == 404, action
    send(studio.owner, f"{path}/send")
    page = page_of(studio.client, path)
    assert f"{path}/edit" not in page
    assert studio.client.get(f"{path}/edit").status_code == 403
    for action in ("edit", "lines", "delete"):
        fields = {"description": "x", "qty": "1", "unit_price": "1"}
        assert send(studio.client, f"{path}/{action}", **fields).status_code == 403, action


def test_time_on_a_draft_is_grouped_and_removed(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Drawn")
    for day in ("05", "06"):
        given = {"task_id": task, "start_time": f"2026-01-{day}T09:00:00Z", "duration": 5_400_000}
        studio.call("POST", f"{studio.project}/timesheets", **given, billable=True, billable_rate=80)
    period = {"from": "2026-01-05", "to": "2026-01-06"}
    assert 'name="group_by"' in page_of(studio.member, f"{studio.base}/time/report?from=2026-01-05&to=2026-01-06")
    answer = send(studio.member, f"{studio.base}/time/report/invoice", **period, group_by="day")
    path = answer.headers["location"]
    assert described(studio, path) == ["5 Jan 2026: Drawn", "6 Jan 2026: Drawn"]
    grouping = studio.member.form(path, f"{path}/grouping")
    assert grouping.fields["group_by"] == "day"
    assert send(studio.member, f"{path}/grouping", group_by="task").status_code == 303
    assert described(studio, path) == ["Drawn (5 Jan 2026 \u2013 6 Jan 2026)"]
    page = text_of(page_of(studio.member, path))
    assert "3:00" in page
    assert "tracked time" in page
    assert "Edit line 1" not in page
    assert studio.member.get(f"{path}/lines/1").status_code == 404
    form = next(each.fields for each in forms(studio.member.get(path)) if each.action == f"{path}/lines/1/remove")
    removed = send(studio.member, f"{path}/lines/1/remove", **form)
    assert described(studio, path) == []
    undo(studio.member, removed)
    assert described(studio, path) == ["Drawn (5 Jan 2026 \u2013 6 Jan 2026)"]
    assert send(studio.member, f"{path}/grouping", group_by="week").status_code == 422
