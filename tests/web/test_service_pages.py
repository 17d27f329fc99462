"""Services, subscriptions and credits: lists, forms, and the access of each role."""

from __future__ import annotations

from datetime import date
from typing import Any

from tests.harness.server import Server
from tests.web.browser import forms
from tests.web.places_kit import add_in, signed_in
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, send, text_of, undo
from workhook.core.clock import DAY_MS, now_ms, to_seconds_text
from workhook.web.frame.formats import short_day_name
from workhook.work.money.services.schemas import PRICES_MAX


def services_of(studio: Studio) -> str:
    return f"/{studio.team.world.organization}/-/services"


def made_service(studio: Studio, **more: Any) -> dict[str, Any]:
    prices = [{"amount": 100, "currency": "EUR", "interval": "month", "credits": 10}]
    body = {"title": "Care", "organization": studio.team.world.organization, "service_prices": prices, **more}
    found: dict[str, Any] = studio.call("POST", "/services", **body)["service"]
    return found


def subscribed(studio: Studio, *, start: bool = True, **more: Any) -> str:
    """Create a subscription with the form and return its address."""
    service = made_service(studio, **more)
    path = f"{studio.base}/billing/subscriptions/new"
    choice = f"{service['id']} {service['service_prices'][0]['id']}"
    answer = send(studio.member, path, service=choice, qty="1", **({"start": "1"} if start else {}))
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def checkout_of(studio: Studio, path: str) -> dict[str, Any]:
    found: dict[str, Any] = studio.call("GET", f"/service_checkouts/{path.rpartition('/')[2]}")["service_checkout"]
    return found


# --- services --------------------------------------------------------------------------------------------------------


def test_a_service_is_created_changed_and_deleted(studio: Studio) -> None:
    base = services_of(studio)
    assert f'href="{base}"' in page_of(studio.owner, f"{studio.base}/billing")
    assert f'href="{base}"' in page_of(studio.owner, f"/{studio.team.world.organization}")
    assert "No services yet." in text_of(page_of(studio.owner, base))
    answer = studio.owner.fill(
        f"{base}/new", title=HOSTILE, description="All of it", amount="1,250.00", credits="12.5", minimum_months="3"
    )
    assert answer.status_code == 303, answer.text
    path = answer.headers["location"]
    service = studio.call("GET", f"/services/{path.rpartition('/')[2]}")["service"]
    [price] = service["service_prices"]
    assert (service["title"], service["active"], service["minimum_months"]) == (HOSTILE, True, 3)
    assert (price["amount"], price["currency"], price["interval"], price["credits"]) == (1250, "EUR", "month", 12.5)
    for page in (page_of(studio.member, base), page_of(studio.member, path)):
        assert "<img src=x" not in page
        assert "1,250.00 EUR per month · included credits: 12.50" in text_of(page)
    form = studio.owner.form(path)
    answer = studio.owner.post(path, {**form.fields, "title": "Care", "description": "", "limit_pausing": "2"})
    assert answer.status_code == 303, answer.text
    service = studio.call("GET", f"/services/{path.rpartition('/')[2]}")["service"]
    assert (service["title"], service["description"], service["limit_pausing"]) == ("Care", None, 2)
    assert service["service_prices"] == [price]
    assert studio.owner.fill(path, f"{path}/delete").headers["location"] == base
    assert studio.owner.get(path).status_code == 404


def test_prices_are_added_ordered_and_removed(studio: Studio) -> None:
    service = made_service(studio)
    path = f"{services_of(studio)}/{service['id']}"
    first = service["service_prices"][0]["id"]
    answer = studio.owner.fill(path, f"{path}/prices", amount="1,000.00", currency="EUR", interval="year")
    assert answer.status_code == 303, answer.text

    def prices() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = studio.call("GET", f"/services/{service['id']}")["service"]["service_prices"]
        return found

    assert [(each["amount"], each["interval"]) for each in prices()] == [(100, "month"), (1000, "year")]
    second = prices()[1]["id"]
    assert send(studio.owner, f"{path}/prices/{second}/first").status_code == 303
    assert [each["id"] for each in prices()] == [second, first]
    answer = send(studio.owner, f"{path}/prices/{first}/remove")
    assert [each["id"] for each in prices()] == [second]
    assert send(studio.owner, f"{path}/prices/{first}/remove").status_code == 409
    answer = studio.owner.fill(path, f"{path}/prices", amount="x", credits="y", currency="CHF")
    assert answer.status_code == 422
    for said in ("“x” is not an amount", "“y” is not an amount"):
        assert said in text_of(answer.text)
    assert '<option value="CHF" selected>' in answer.text
    assert len(prices()) == 1


def test_one_price_too_many_is_refused_until_one_is_removed(studio: Studio) -> None:
    prices = [{"amount": each + 1, "currency": "EUR", "interval": "month"} for each in range(PRICES_MAX)]
    service = made_service(studio, service_prices=prices)
    path = f"{services_of(studio)}/{service['id']}"
    price = {"amount": "1.50", "currency": "EUR", "interval": "month"}
    answer = send(studio.owner, f"{path}/prices", **price)  # the page no longer offers the form
    assert answer.status_code == 409
    assert f"A service can have at most {PRICES_MAX} prices. Remove one first." in text_of(answer.text)
    send(studio.owner, f"{path}/prices/{service['service_prices'][0]['id']}/remove")
    assert send(studio.owner, f"{path}/prices", **price).status_code == 303


def test_a_removed_price_is_restored(studio: Studio) -> None:
    service = made_service(studio)
    path = f"{services_of(studio)}/{service['id']}"
    answer = send(studio.owner, f"{path}/prices/{service['service_prices'][0]['id']}/remove")
    assert "This service is free." in text_of(page_of(studio.member, path))
    assert undo(studio.owner, answer).status_code == 303
    assert "100.00 EUR per month · included credits: 10" in text_of(page_of(studio.member, path))


def test_a_refused_service_form_keeps_the_input(studio: Studio) -> None:
    path = f"{services_of(studio)}/new"
    typed = {"title": "", "description": "Kept", "amount": "x", "limit_pausing": "many"}
    answer = studio.owner.fill(path, **typed)
    text = text_of(answer.text)
    assert answer.status_code == 422
    assert "Kept" in text
    for said in (
        "Title is required",
        "“x” is not an amount",
        "Maximum pauses must be a whole number from 0 to 10000",
    ):
        assert said in text
    form = next(each for each in forms(answer) if each.action == path)
    assert form.fields["limit_pausing"] == "many"
    assert studio.api.get("/api/v1/services").json()["services"] == []


def test_input_is_kept_if_another_user_changed_the_service(studio: Studio) -> None:
    path = f"{services_of(studio)}/{made_service(studio)['id']}"
    form = studio.owner.form(path)
    studio.call("PATCH", f"/services/{path.rpartition('/')[2]}", title="Theirs", addon=True)
    answer = studio.owner.post(path, {**form.fields, "title": "Mine"})
    text = text_of(answer.text)
    assert answer.status_code == 409
    assert "Current value: Theirs" in text
    assert "Current value: yes" in text
    [again] = [each for each in forms(answer) if each.action == path]
    assert again.fields["title"] == "Mine"
    assert studio.owner.post(path, again.fields).status_code == 303
    service = studio.call("GET", f"/services/{path.rpartition('/')[2]}")["service"]
    assert (service["title"], service["addon"]) == ("Mine", False)


def test_a_service_on_invoices_cannot_be_deleted(studio: Studio) -> None:
    subscribed(studio)
    [service] = studio.call("GET", "/services")["services"]
    path = f"{services_of(studio)}/{service['id']}"
    answer = send(studio.owner, f"{path}/delete")
    assert answer.status_code == 409
    assert "This service is on issued invoices (INV-00001)" in text_of(answer.text)
    assert studio.owner.get(path).status_code == 200


def test_members_see_services_and_others_do_not(server: Server, studio: Studio) -> None:
    base = services_of(studio)
    path = f"{base}/{made_service(studio)['id']}"
    page = page_of(studio.member, path)
    assert [each.action for each in forms(studio.member.get(path)) if each.action.startswith(base)] == []
    assert "100.00 EUR per month" in text_of(page)
    for each in ("new", path.rpartition("/")[2]):
        assert send(studio.member, f"{base}/{each}", title="Mine").status_code == 403
    for action in ("delete", "prices/x/remove"):
        assert send(studio.member, f"{path}/{action}").status_code == 403
    assert send(studio.member, f"{path}/prices", amount="1", currency="EUR", interval="week").status_code == 403
    with signed_in(server, add_in(server, studio.team.world, "write")) as outsider, open_studio(server) as other:
        assert f'href="{base}"' not in page_of(outsider, f"{studio.base}/billing")
        assert "Only members of" in text_of(page_of(outsider, f"{studio.base}/billing/subscriptions/new"))
        own = services_of(other)
        for browser in (studio.client, outsider, other.owner):
            for each in (base, path, f"{base}/new"):
                assert browser.get(each).status_code == 404
            assert send(browser, path, title="x").status_code == 404
        assert other.owner.get(path.replace(base, own)).status_code == 404


def test_people_have_their_own_services(studio: Studio) -> None:
    base = f"/{studio.team.member.login}/-/services"
    answer = studio.member.fill(f"{base}/new", title="Lessons")
    assert answer.status_code == 303, answer.text
    assert "Lessons" in text_of(page_of(studio.member, base))
    assert studio.owner.get(base).status_code == 404
    assert "Lessons" not in page_of(studio.owner, services_of(studio))


# --- subscriptions ---------------------------------------------------------------------------------------------------


def test_a_subscription_shows_its_dates(studio: Studio) -> None:
    path = subscribed(studio, start=False)
    base = f"{studio.base}/billing/subscriptions"

    def told() -> str:
        return text_of(page_of(studio.client, base))

    assert "Care Not started not started yet" in told()
    for step, words in (("start", "renews on"), ("pause", "paused since"), ("resume", "renews on")):
        answer = send(studio.member, f"{path}/{step}")
        assert (answer.status_code, answer.headers["location"]) == (303, path), answer.text
        assert words in told()
        assert words in text_of(page_of(studio.client, path))
    assert [each["total"] for each in studio.call("GET", f"{studio.project}/invoices")["invoices"]] == [100]
    answer = studio.member.fill(path, f"{path}/cancel", reason="Too dear", feedback="They said so.")
    assert answer.status_code == 303, answer.text
    assert "ended on" in told()
    assert "Too dear" in text_of(page_of(studio.member, path))
    assert send(studio.member, f"{path}/delete").status_code == 303
    assert "No subscriptions yet." in told()


def test_a_canceled_subscription_stays_active_until_the_end_of_the_period(studio: Studio) -> None:
    path = subscribed(studio, cancel_at_period_end=True)
    assert "The subscription stays active until its period ends on" in text_of(page_of(studio.member, path))
    assert send(studio.member, f"{path}/cancel", reason="", feedback="").status_code == 303
    text = text_of(page_of(studio.member, path))
    ends = date.fromisoformat(checkout_of(studio, path)["period_end"][:10])
    assert f"ends on {short_day_name(ends)}" in text
    assert "Cancel subscription" not in text
    assert f"{path}/delete" not in page_of(studio.member, path)


def test_one_time_and_free_subscriptions_do_not_renew(studio: Studio) -> None:
    once = subscribed(studio, service_prices=[{"amount": 5, "currency": "EUR", "interval": "one_time"}])
    assert "doesn’t renew" in text_of(page_of(studio.client, once))
    free = made_service(studio, title="Free", service_prices=[])
    path = f"{studio.base}/billing/subscriptions/new"
    answer = send(studio.member, path, service=free["id"], qty="2", start="1")
    assert answer.status_code == 303, answer.text
    text = text_of(page_of(studio.client, answer.headers["location"]))
    assert "active since" in text
    assert "free" in text


def test_a_step_forbidden_by_the_service_is_refused_with_the_reason(studio: Studio) -> None:
    path = subscribed(studio, minimum_months=3, limit_pausing=0)
    for step, said in (
        ("pause", "This subscription can’t be paused again. The maximum number of pauses is 0."),
        ("cancel", "in its first 3 months"),
    ):
        answer = send(studio.member, f"{path}/{step}", reason="Kept reason", feedback="Kept feedback")
        assert answer.status_code == 409
        assert said in text_of(answer.text)
    assert "Kept reason" in answer.text
    assert "Kept feedback" in answer.text
    assert checkout_of(studio, path)["status"] == "active"
    fixed = subscribed(studio, title="Fixed", disable_pause=True)
    assert f"{fixed}/pause" not in page_of(studio.member, fixed)


def test_the_form_announces_the_first_invoice(studio: Studio) -> None:
    path = f"{studio.base}/billing/subscriptions/new"
    price = {"amount": 500, "currency": "EUR", "interval": "month"}
    made_service(studio, service_prices=[price])
    page = page_of(studio.member, path)
    assert "500.00 EUR is invoiced immediately and then every month." in text_of(page)
    assert "Recipient not set in the project’s billing settings Tax no tax" in text_of(page)
    studio.call("PATCH", f"{studio.project}/billing", buyer={"name": "Acme GmbH"}, tax=19)
    page = page_of(studio.member, path)
    assert "595.00 EUR is invoiced immediately and then every month." in text_of(page)
    assert "Recipient Acme GmbH Tax 19%" in text_of(page)
    assert page.count('type="radio"') == page.count("required checked>") == 1
    made_service(studio, title="Another", service_prices=[{**price, "interval": "one_time"}])
    page = page_of(studio.member, path)
    assert "595.00 EUR is invoiced immediately. " in text_of(page)
    assert "required checked>" not in page


def test_a_subscription_needs_an_available_service_and_a_quantity(studio: Studio) -> None:
    path = f"{studio.base}/billing/subscriptions/new"
    assert "No services are available." in text_of(page_of(studio.member, path))
    made_service(studio, title="Old", active=False)
    one = made_service(studio, title="One", disable_quantity=True)
    page = page_of(studio.member, path)
    assert "One" in text_of(page)
    assert "Old" not in text_of(page)
    choice = f"{one['id']} {one['service_prices'][0]['id']}"
    for fields, said in (
        ({"service": "", "qty": "2"}, "Choose a service."),
        ({"service": choice, "qty": "2"}, "The quantity must be 1 for this service"),
        ({"service": choice, "qty": "some"}, "Quantity must be a whole number from 1 to 10000"),
        ({"service": "svc_none", "qty": "1"}, "This service is no longer available."),
    ):
        answer = send(studio.member, path, **fields)
        assert answer.status_code == 422, fields
        assert said in text_of(answer.text)
        assert f'value="{fields["qty"]}"' in answer.text
    assert studio.call("GET", f"{studio.project}/service_checkouts")["service_checkouts"] == []


def test_clients_and_readers_see_but_cannot_change_subscriptions(server: Server, studio: Studio) -> None:
    path = subscribed(studio)
    base = f"{studio.base}/billing/subscriptions"
    page = page_of(studio.client, f"{studio.base}/billing")
    assert f'href="{base}"' in page
    assert "/credits" not in page
    assert "/-/services" not in page
    with signed_in(server, add_in(server, studio.team.world, "read")) as reader:
        for browser in (studio.client, reader):
            for shown in (base, path):
                answers = forms(browser.get(shown))
                assert [each.action for each in answers if each.action.startswith(studio.base)] == []
            assert browser.get(f"{base}/new").status_code == 403
            for step in ("start", "pause", "resume", "cancel", "delete"):
                assert send(browser, f"{path}/{step}").status_code == 403, step
            assert send(browser, f"{base}/new", service="svc_x", qty="1").status_code == 403
    with open_studio(server) as other:
        for there in (path, path.replace(studio.base, other.base)):
            assert other.owner.get(there).status_code == 404
            assert send(other.owner, f"{there}/pause").status_code == 404
    assert checkout_of(studio, path)["status"] == "active"


# --- credits ---------------------------------------------------------------------------------------------------------


def balance_of(studio: Studio) -> dict[str, Any]:
    return studio.call("GET", f"{studio.project}/task_credits/balance")


def test_credits_are_granted_spent_and_reversed(studio: Studio) -> None:
    base = f"{studio.base}/billing/credits"
    assert f'href="{base}"' in page_of(studio.member, f"{studio.base}/billing")
    text = text_of(page_of(studio.member, base))
    assert "No credits yet." in text
    assert "Credits are prepaid work" in text
    assert "No open tasks to spend credits on." in text_of(page_of(studio.member, base))
    task = studio.add_task(studio.add_column("To do"), HOSTILE)
    day = to_seconds_text(now_ms() + 30 * DAY_MS)[:10]
    studio.call("PATCH", f"/organizations/{studio.team.world.organization}/billing", timezone="America/New_York")
    fields = {"amount": "1,250.50", "notes": HOSTILE, "expires_at": day}
    assert studio.member.fill(base, f"{base}/grant", **fields).status_code == 303
    entry = studio.call("GET", f"{studio.project}/task_credits")["task_credits"][0]
    assert (entry["amount"], entry["notes"]) == (1250.5, HOSTILE)
    assert entry["expires_at"] > f"{day}T23:59"  # in New York, that day ends later than in UTC
    # The date follows the studio's time zone, not the reader's.
    for zone in ("Pacific/Auckland", "America/Los_Angeles"):
        studio.member.client.cookies.set("workhook_timezone", zone)
        assert page_of(studio.member, base).count(f'<time datetime="{day}"') == 2
    assert studio.member.fill(base, f"{base}/spend", amount="50.5", task_id=task).status_code == 303
    page = page_of(studio.member, base)
    text = text_of(page)
    assert "<img src=x" not in page
    assert "Balance 1,200 Total granted 1,250.50 Total spent 50.50" in text
    assert text.index("Spent · ") < text.index("Granted ", text.index("Ledger"))
    assert "\u221250.50" in text
    assert "+1,250.50" in text
    [form] = [each for each in forms(studio.member.get(base)) if each.action.endswith("/reverse")]
    assert studio.member.post(form.action, form.fields).status_code == 303
    assert balance_of(studio)["balance"] == 1250.5
    assert "reversed" in text_of(page_of(studio.member, base))


def test_a_refused_credit_form_keeps_the_input(studio: Studio) -> None:
    base = f"{studio.base}/billing/credits"
    task = studio.add_task(studio.add_column("To do"), "Paid for")
    for action, typed, status, said in (
        ("grant", {"amount": "lots"}, 422, "“lots” is not an amount. Enter one such as 1250.00."),
        ("grant", {"amount": "0"}, 422, "Amount must be greater than 0"),
        ("grant", {"amount": "5", "expires_at": "2020-01-01"}, 422, "The last day must be today or later"),
        ("grant", {"amount": "5", "expires_at": "soon"}, 422, "Enter the last day as a date"),
        ("spend", {"amount": "5", "task_id": ""}, 422, "Choose the task to spend the credits on."),
        ("spend", {"amount": "5", "task_id": task}, 409, "The balance is 0, so 5 cannot be spent."),
    ):
        answer = send(studio.member, f"{base}/{action}", notes="Kept note", **typed)
        assert answer.status_code == status, typed
        assert said in text_of(answer.text)
        [form] = [each for each in forms(answer) if each.action == f"{base}/{action}"]
        assert form.fields["notes"] == "Kept note"
        for name, value in typed.items():
            assert form.fields[name] == value, typed
    assert balance_of(studio)["granted"] == 0


def test_a_long_ledger_is_paginated(studio: Studio) -> None:
    for number in range(53):
        studio.call("POST", f"{studio.project}/task_credits", amount=1, notes=f"number{number:02}")
    base = f"{studio.base}/billing/credits"
    page = page_of(studio.member, base)
    assert "number52" in page
    assert "number02" not in page
    more = page[: page.index('rel="next"')].rpartition('href="')[2].partition('"')[0]
    text = text_of(page_of(studio.member, base + more.replace("&amp;", "&")))
    assert [f"number{number:02}" in text for number in (0, 2, 3)] == [True, True, False]
    assert text.index("number02") < text.index("number00")


def test_clients_and_strangers_cannot_see_credits(server: Server, studio: Studio) -> None:
    base = f"{studio.base}/billing/credits"
    entry = studio.call("POST", f"{studio.project}/task_credits", amount=1)["task_credit"]["id"]
    with open_studio(server) as other:
        for browser in (studio.client, other.owner):
            assert browser.get(base).status_code == 404
            for action in ("grant", "spend", f"{entry}/reverse"):
                assert send(browser, f"{base}/{action}", amount="1").status_code == 404
        assert send(other.owner, f"{other.base}/billing/credits/{entry}/reverse").status_code == 404
    with signed_in(server, add_in(server, studio.team.world, "read")) as reader:
        assert "Grant" not in [button for each in forms(reader.get(base)) for button in each.buttons]
        assert send(reader, f"{base}/grant", amount="1").status_code == 403
    assert balance_of(studio)["balance"] == 1
