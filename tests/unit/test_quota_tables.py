"""An organization's quota covers every table and every operation that creates something."""

from __future__ import annotations

import workhook.web.operations  # noqa: F401  # declares its tables
from workhook.hooks.api import OPERATIONS as OF_HOOKS
from workhook.http.operations import WEBHOOK_API, WORK_API
from workhook.identity.audit import action_of
from workhook.storage.metadata import metadata
from workhook.work.kernel.quota import EVENT_ACTIONS, NOT_COUNTED, counted, makes_records
from workhook.work.operations import OPERATIONS as OF_WORK
from workhook.work.people.invitations import organization, repository

# POST operations that create no records, or only a bounded number. They stay available when the quota is exhausted.
GOING_ON = {
    "project.restore", "task.restore", "file.restore", "member.add", "client.invite",
    "service_checkout.complete", "service_checkout.pause", "service_checkout.unpause", "service_checkout.cancel",
    "invoice.send", "invoice.pay", "invoice.void", "payment.create", "payment.refund", "credit_note.create",
    "timesheet.pause", "timesheet.resume", "timesheet.finish", "delivery.redeliver", "delivery.redeliver_many",
    "notification.mark_read",
}  # fmt: skip


_REASONS = {
    "accounts": "An account is what is counted for.",
    "memberships": "There is one for each person at most.",
    "installations": "There is one for each app at most.",
    "audit_log": "What others try and fail to do must not use up an organization's rows; it goes with its retention.",
    "task_buckets task_assignees task_blockers service_prices service_checkout_periods":
        "They are parts of a record that is counted, and there are only so many for each.",
    "account_billing invoice_numbers credit_note_numbers": "There is one for each account.",
    "closing_commits": "There is one for each task that a published event closes, which is counted.",
    "member_rates": "There is one for each person in a place at most.",
    "invoice_year_numbers": "There is one for each account and year at most.",
    "billing_logos": "An account has one, and one for each invoice at most, which is counted.",
    "notification_settings": "They are a person's, who has so many at most.",
    "mail_recipients": "There is one for each person at most.",
    "event_keys": "There is one for each event at most, for a day.",
    "dispatches deliveries redeliveries lanes": "Deliveries are never refused; they go with `retention_days`.",
    "receivers arrivals": "There is one receiver for each webhook at most, and it keeps 50 requests.",
    "timesheet_changes timesheet_sums": "They are made of timesheets, which are counted.",
    "workers worker_generation probe key_check rate_windows sign_in_failures": "They are the server's own.",
    "administrators identities passwords sessions sent_forms sign_in_links tokens grants":
        "They belong to a person or their sign-in, not to an organization.",
    "idempotency_keys": "It belongs to a token, and is kept for a day.",
    "app_keys app_secrets authorization_codes device_codes refresh_tokens":
        "They belong to an app, which is counted, and are short-lived or bounded.",
}  # fmt: skip
OTHERS = {name for names in _REASONS for name in names.split()}
"""Tables outside projects that do not count toward the quota."""


def test_every_table_is_counted_or_excluded() -> None:
    assert set(metadata.tables) == {*counted(), *NOT_COUNTED, *OTHERS, "events"}
    assert not counted().keys() & (NOT_COUNTED.keys() | OTHERS)
    assert not NOT_COUNTED.keys() & OTHERS
    for name, way in counted().items():
        assert way in metadata.tables[name].c, name
    for name in ("repository_id", "account_id", "size"):
        assert name in metadata.tables["events"].c


def test_every_post_operation_is_limited_or_exempt() -> None:
    posting = {
        action_of(each)
        for each in (*OF_WORK, *organization.routes, *repository.routes, *OF_HOOKS)
        if each.method == "POST"
    }
    making = {each for each in posting if makes_records(each)}
    assert posting == (making | (EVENT_ACTIONS & posting) | GOING_ON)
    assert not GOING_ON & (making | EVENT_ACTIONS)


def test_limited_operations_describe_their_refusal() -> None:
    for each in (*OF_WORK, *OF_HOOKS):
        if each.area is WORK_API and each.method == "POST" and makes_records(action_of(each)):
            assert {409, 413} <= each.all_problems, each.name
        elif action_of(each) in EVENT_ACTIONS:
            assert each.area is WEBHOOK_API
            assert 413 in each.all_problems, each.name
