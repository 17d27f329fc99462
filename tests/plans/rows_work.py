"""The lists of the work API."""

from __future__ import annotations

from collections.abc import Mapping

from tests.plans.rows import Row

_START, _LATE = "2023-11-14T22:14:00Z", "2023-11-15T00:26:00Z"
"""The first minute of the inserted rows, and the last minutes."""

_SORTS = ("created_at", "updated_at", "title", "deadline")
_FILTERS = (
    ("priority", "low"), ("assignee", "rare"), ("label", "rare"), ("deadline_before", _START),
    ("deadline_after", _LATE), ("finished", "true"),
)  # fmt: skip
_COMMON = (("priority", "high"), ("assignee", "often"), ("label", "often"), ("finished", "false"))

_DAY = {"deadline_after": "2023-11-14", "timezone": "Asia/Tokyo"}
"""A date, whose day starts in a time zone."""

_WALK = 1500
"""Allowed work for a page with filters, which reads and sorts a hundred rows here."""

_FULL_SCAN = 2000
"""Allowed work on SQLite to scan all rows that contain the words, between the oldest and the newest row that is read.

Within the word index, this only compares numbers.
"""

_TASKS = (
    Row("list_project_tasks"),
    Row("list_project_tasks", {"priority": "medium"}, walks=True, bound=_WALK),
    *(Row("list_project_tasks", {"sort": f"{sign}{each}"}) for each in _SORTS for sign in ("", "-")),
    *(Row("list_project_tasks", {name: value}, walks=True, bound=_WALK) for name, value in (*_FILTERS, *_COMMON)),
    Row("list_project_tasks", {"finished": "false"}, place="other", walks=True, bound=_WALK),
    Row("list_project_tasks", _DAY, walks=True, bound=_WALK),
    Row("list_project_tasks", {"assignee": "rare"}, caller="client", walks=True, bound=_WALK),
    *(
        Row("list_project_tasks", {name: value, "sort": f"{sign}{each}"}, walks=True, bound=_WALK)
        for name, value in (*_FILTERS, *_COMMON)
        for each in _SORTS
        for sign in ("", "-")
    ),
)
_KINDS = ("task", "task_comment", "file", "file_comment", "file_comment_reply", "invoice", "credit_note")
_EACH_KIND = 7 * 650
"""Allowed work for a search, which reads each kind."""

_SEARCHES = (
    Row("search", {"q": "seldom"}, bound=_EACH_KIND),
    Row("search", {"q": "common"}, bound=_EACH_KIND),
    Row("search", {"q": "common", "project_id": "{project}"}, bound=_EACH_KIND, sqlite_more=2 * _FULL_SCAN),
    *(Row("search", {"q": "common", "type": each}) for each in _KINDS),
    Row("search", {"q": "common", "type": "task"}, caller="client"),
    Row("search", {"q": "#100002", "type": "task"}, bound=_EACH_KIND),
)
_TIMESHEETS = (
    Row("list_timesheets"),
    Row("list_timesheets", {"user": "rare"}),
    Row("list_timesheets", {"user": "often"}),
    Row("list_timesheets", {"task_id": "tsk_000000002"}),
    Row("list_timesheets", {"task_id": "tsk_000000000"}),
    Row("list_timesheets", {"from": _LATE}, walks=True, bound=_WALK),
    Row("list_timesheets", {"to": _START}, walks=True, bound=_WALK),
    Row("list_timesheets", {"from": "2023-11-14", "timezone": "Asia/Tokyo"}, walks=True, bound=_WALK),
    *(
        Row("list_timesheets", {name: value}, place=place, walks=True, bound=_WALK)
        for name in ("billable", "finished", "invoiced")
        for value, place in (("true", "project"), ("false", "other"), ("false", "project"))
    ),
    Row("list_timesheets", {"is_active": "true"}, walks=True, bound=_WALK),
    Row("list_timesheets", {"is_active": "false"}, walks=True, bound=_WALK),
)
_IN = {"project_id": "{project}"}
_GROUPS = ("user", "task", "project", "day")
_NARROWED: tuple[dict[str, str], ...] = (
    {},
    {"timezone": "Europe/Vienna"},
    {"user": "often"},
    {"from": _LATE},
    {"to": _START},
    *({name: value} for name in ("billable", "invoiced") for value in ("true", "false")),
)
_PLACES = 40_000
"""Allowed work for a report over all projects.

The caller sees 2,000 of them, and each is looked up in the sums, the notes and the running timers.
"""
_REPORTS = (
    *(Row("report_timesheets", {**_IN, "group_by": each, **narrowed}) for each in _GROUPS for narrowed in _NARROWED),
    Row("report_timesheets", bound=_PLACES),
    *(Row("report_timesheets", {"group_by": each}, bound=_PLACES) for each in _GROUPS),
)
_INVOICES = (
    Row("list_invoices"),
    *(
        Row("list_invoices", {"status": each})
        for each in ("draft", "paid", "partially_paid", "sent", "credited", "void")
    ),
    Row("list_invoices", {"overdue": "true"}),
    Row("list_invoices", {"overdue": "false"}),
    Row("list_invoices", {"status": "sent", "overdue": "true"}),
    # The caller has few notifications. `test_plans_of_pages` covers one with many.
    *(Row("list_notifications", query, finds=0) for query in ({}, {"unread": "true"}, {"unread": "false"})),
    Row("list_payments"),
    Row("list_credit_notes"),
)
_SERVICES: tuple[Mapping[str, str], ...] = (
    {}, {"organization": "{organization}"}, {"organization": "others"}, {"active": "true"}, {"active": "false"},
    {"organization": "others", "active": "false"}, {"organization": "nobody"},
)  # fmt: skip
_IN_NONE, _IN_OTHERS = ("client", "creator"), ("member", "both")
_MACHINES = ("fine", "chosen", "machine")


def _services_shown(query: Mapping[str, str], caller: str) -> int:
    """Return the minimum number of services that a caller sees.

    Only its members, with a sufficient token, see another organization.
    """
    wanted = query.get("organization")
    return int(caller not in _IN_NONE and wanted != "nobody" and (wanted != "others" or caller in _IN_OTHERS))


_OF_ALL = (
    *(Row("list_projects", caller=each) for each in ("owner", *_IN_NONE, *_IN_OTHERS, *_MACHINES)),
    *(Row("list_trash", caller=each) for each in ("owner", "both", "fine", "chosen")),
    *(Row("list_trash", caller=each, finds=0) for each in ("client", "member", "machine")),
    *(
        Row("list_services", query, caller=each, finds=_services_shown(query, each))
        for query in _SERVICES
        for each in ("owner", *_IN_NONE, *_IN_OTHERS, *_MACHINES)
    ),
)
"""Lists across organizations, for members of one, of two and of none, for collaborators, and for machines."""

_EACH_PLACE = 40_000
"""Allowed work for a list across projects. The owner sees 2,000 of them, and the first rows of each are looked up."""
_EACH_BY_HAND = 65_000
"""`creator` is a collaborator on 8,000 projects, half of which are deleted."""
_PAIR = {"project_id": "{project},prj_other"}
_WALK_OF_PAIR = 4 * _WALK
_ONE_PLACE = ({"organization": "{organization}"}, {"project_id": "{project}"}, {"project_id": "prj_none"})


def _across(name: str, *queries: Mapping[str, str], kinds: int = 1) -> tuple[Row, ...]:
    """Return rows for a list across projects: for each caller, and with each filter in all projects and in two.

    `kinds` is the number of tables it reads.
    """
    most, by_hand, pair = (kinds * each for each in (_EACH_PLACE, _EACH_BY_HAND, _WALK_OF_PAIR))
    others = (each for each in (*_IN_NONE, *_IN_OTHERS, *_MACHINES) if each != "creator")
    return (
        Row(name, bound=most),
        Row(name, caller="creator", walks=True, bound=by_hand),
        *(Row(name, caller=each, walks=True, bound=most) for each in others),
        *(Row(name, each, walks=True, bound=most) for each in (*_ONE_PLACE, *queries)),
        *(Row(name, {**_PAIR, **each}, walks=True, bound=pair) for each in ({}, *queries)),
    )


_ACROSS = (
    *_across(
        "list_all_tasks",
        *({name: value} for name, value in (*_FILTERS, *_COMMON)),
        {"assignee": "me"},
        {"priority": "medium"},
        {"parent_id": "tsk_000000000"},
        _DAY,
        *({"blocked": each} for each in ("true", "false")),
        *({"sort": f"{sign}{each}"} for each in _SORTS for sign in ("", "-")),
        *({"finished": "true", "sort": f"{sign}{each}"} for each in _SORTS for sign in ("", "-")),
    ),
    *_across(
        "list_all_timesheets",
        {"user": "rare"},
        {"user": "often"},
        {"user": "me"},
        {"task_id": "tsk_000000002"},
        {"from": _LATE},
        {"to": _START},
        {"from": "2023-11-14", "timezone": "Asia/Tokyo"},
        *({name: value} for name in ("billable", "finished", "invoiced", "is_active") for value in ("true", "false")),
    ),
    *_across("list_running_timesheets", {"user": "me"}, {"user": "many-1"}),
    *_across(
        "list_all_invoices",
        *({"status": each} for each in ("draft", "paid", "partially_paid", "sent", "credited", "void")),
        *({"overdue": each} for each in ("true", "false")),
        {"user": "rare"},
    ),
    *_across(
        "list_all_files",
        *({"folder": each} for each in ("fld_000000001", "fld_000000000")),
        *({"task_id": each} for each in ("tsk_000000002", "tsk_000000000")),
        {"user": "rare"},
    ),
    *_across("list_comments", {"user": "rare"}, {"user": "often"}, kinds=3),
)

ROWS = (
    *_TASKS,
    *_ACROSS,
    *_SEARCHES,
    *_TIMESHEETS,
    *_INVOICES,
    *_REPORTS,
    *_OF_ALL,
    Row("list_project_tasks", {"q": "common"}, bound=_WALK, sqlite_more=_FULL_SCAN // 4),
    Row("list_project_tasks", {"q": "common", "finished": "false"}, bound=_WALK, sqlite_more=_FULL_SCAN // 4),
    # The first titles may be of any age, so all rows with the word are scanned, at a few steps each.
    Row("list_project_tasks", {"q": "common", "sort": "-title"}, bound=_WALK, sqlite_more=4 * _FULL_SCAN),
    Row("list_column_tasks"),
    Row("list_column_tasks", {"project_id": "{project}"}),
    *(Row("list_column_tasks", {name: value}, walks=True, bound=_WALK) for name, value in (*_FILTERS, *_COMMON)),
    Row("list_column_tasks", {"priority": "medium"}, walks=True, bound=_WALK),
    Row("list_column_tasks", _DAY, walks=True, bound=_WALK),
    Row("list_column_tasks", {"blocked": "true"}, walks=True, bound=_WALK, sqlite_more=_FULL_SCAN // 4),
    Row("list_column_tasks", {"blocked": "false"}, walks=True, bound=_WALK),
    *(Row("list_project_tasks", {"blocked": each}, walks=True, bound=_WALK) for each in ("true", "false")),
    Row("list_column_tasks", {"parent_id": "tsk_000000000"}, walks=True, bound=_WALK),
    *(
        Row("list_project_tasks", {"parent_id": "tsk_000000000", **sort})
        for sort in ({}, *({"sort": f"{sign}{each}"} for each in _SORTS for sign in ("", "-")))
    ),
    Row("list_project_trash"),
    Row("list_members"),
    Row("list_organization_members"),
    Row("list_clients"),
    Row("list_columns"),
    Row("list_files"),
    Row("list_files", caller="client"),
    Row("list_files", {"folder": "fld_000000001"}),
    Row("list_files", {"folder": "fld_000000000"}),
    *(Row("list_files", {"task_id": each}) for each in ("tsk_000000000", "tsk_000000002")),
    Row("list_task_files"),
    Row("list_task_files", caller="client"),
    Row("list_folders"),
    Row("list_task_comments"),
    Row("list_task_comments", caller="client"),
    Row("list_file_comments"),
    Row("list_file_comments", caller="client"),
    Row("list_service_checkouts"),
    Row("list_task_credits"),
)

NOT_YET = (
    # All rows with the words are read, whatever their project or column.
    Row("list_all_tasks", {"q": "common"}),
    Row("list_all_invoices", {"q": "common"}),
    Row("list_column_tasks", {"q": "common"}),
    # All rows with the words are sorted if the first tasks of the list do not fill the page.
    Row("list_project_tasks", {"q": "seldom"}),
    # The caller sees few of the many rows with the words. There is no word index per project.
    Row("search", {"q": "common"}, caller="client"),
    Row("search", {"q": "seldom", "project_id": "{project}"}),
    # Everything in projects where the caller is an admin as a collaborator is read, to find what was deleted.
    Row("list_trash", caller="creator"),
)
"""Lists that read more than they show, with the reason. They are not judged."""
