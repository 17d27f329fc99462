"""Nothing is forgotten when an organization's quota is thought of: no table, and no operation that makes something."""

from __future__ import annotations

import workhook.web.operations  # noqa: F401  # its tables
from workhook.hooks.api import OPERATIONS as OF_HOOKS
from workhook.http.operations import WEBHOOK_API, WORK_API
from workhook.identity.audit import action_of
from workhook.storage.metadata import metadata
from workhook.work.kernel.quota import NOT_COUNTED, TELLING, counted, makes_records
from workhook.work.operations import OPERATIONS as OF_WORK
from workhook.work.people.invitations import organization, repository

# What begins with POST and makes no record, or none without bound: it goes on where nothing more may be made.
GOING_ON = {
    "project.restore", "task.restore", "file.restore", "member.add", "client.invite",
    "service_checkout.complete", "service_checkout.pause", "service_checkout.unpause", "service_checkout.cancel",
    "invoice.send", "invoice.pay", "invoice.void", "payment.create", "payment.refund", "credit_note.create",
    "timesheet.pause", "timesheet.resume", "timesheet.finish", "delivery.redeliver", "delivery.redeliver_many",
    "notification.mark_read",
}  # fmt: skip


def test_every_table_is_counted_or_said_not_to_be() -> None:
    assert set(metadata.tables) == {*counted(), *NOT_COUNTED, "events"}
    assert not counted().keys() & NOT_COUNTED.keys()
    for name, way in counted().items():
        assert way in metadata.tables[name].c, name
    for name in ("repository_id", "account_id", "size"):
        assert name in metadata.tables["events"].c


def test_every_operation_that_posts_is_bounded_or_goes_on() -> None:
    posting = {
        action_of(each)
        for each in (*OF_WORK, *organization.routes, *repository.routes, *OF_HOOKS)
        if each.method == "POST"
    }
    making = {each for each in posting if makes_records(each)}
    assert posting == (making | (TELLING & posting) | GOING_ON)
    assert not GOING_ON & (making | TELLING)


def test_an_operation_that_is_bounded_says_how_it_is_refused() -> None:
    for each in (*OF_WORK, *OF_HOOKS):
        if each.area is WORK_API and each.method == "POST" and makes_records(action_of(each)):
            assert {409, 413} <= each.all_problems, each.name
        elif action_of(each) in TELLING:
            assert each.area is WEBHOOK_API
            assert 413 in each.all_problems, each.name
