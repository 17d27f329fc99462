"""The lists of webhooks, activity and the audit log."""

from __future__ import annotations

from tests.plans.rows import Row

_START, _LATE = "2023-11-14T22:14:00Z", "2023-11-15T00:26:00Z"
_LONG_AGO, _NEVER = "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"
_LIST = "repository_deliveries_list"

_ALONE = (
    {"status": "failure"}, {"status": "success"}, {"event": "fork"}, {"event": "push"}, {"action": "rare"},
    {"action": "often"}, {"guid": "guid-10"}, {"redelivery": "true"}, {"redelivery": "false"}, {"since": _LATE},
    {"until": _START}, {"since": _START}, {"until": _LATE},
)  # fmt: skip
_NOTHING = (
    {"event": "star"}, {"action": "none"}, {"guid": "none"}, {"until": _LONG_AGO}, {"since": _NEVER},
    {"since": "2023-11-14T23:00:00Z", "until": "2023-11-14T23:00:00Z"}, {"event": "fork", "status": "success"},
    {"event": "push", "status": "failure"}, {"action": "often", "redelivery": "true"}, {"guid": "guid-11"},
    {"action": "often", "event": "fork"}, {"status": "failure", "until": "2023-11-14T22:13:00Z"},
    {"status": "failure", "redelivery": "false"}, {"event": "push", "action": "rare", "status": "failure"},
)  # fmt: skip
_TOGETHER = (
    {"status": "failure", "event": "fork"}, {"status": "failure", "action": "rare", "redelivery": "true"},
    {"event": "push", "until": _START}, {"event": "push", "since": _LATE}, {"status": "success", "until": _START},
    {"action": "often", "event": "push", "status": "success", "redelivery": "false", "since": _START, "until": _LATE},
)  # fmt: skip
_DELIVERIES = (
    Row(_LIST),
    *(Row(_LIST, each) for each in (*_ALONE, *_TOGETHER)),
    *(Row(_LIST, each, finds=0) for each in _NOTHING),
    # In the project where rare values are common.
    *(Row(_LIST, each, place="other") for each in ({"status": "success"}, {"redelivery": "false"}, {"event": "push"})),
    Row(_LIST, {"status": "success", "until": _LATE}, place="other"),
)
_ACTIVITY = (
    Row("list_activity"),
    *(
        Row("list_activity", each)
        for each in (
            {"event": "fork"}, {"event": "push"}, {"actor": "rare"}, {"actor": "often"}, {"since": _LATE},
            {"since": _START}, {"actor": "rare", "event": "fork"}, {"actor": "often", "since": _START},
        )
    ),
    *(
        Row("list_activity", each, finds=0)
        for each in (
            {"event": "star"}, {"actor": "nobody"}, {"since": _NEVER}, {"actor": "often", "event": "fork"},
            {"actor": "rare", "event": "push"},
        )
    ),
    Row("list_activity", {"actor": "often"}, place="other"),
)  # fmt: skip
_PHRASES = (
    "action:hook.create", "action:hook", "action:task", "ook", "ask", "actor:rare", "actor:often",
    "repo:{organization}/x", "created:2023-11-14T22:14:00Z", "created:<2023-11-14T22:14:00Z",
    "created:2023-11-15T00:26:00Z..*", "actor:rare action:hook", "actor:often action:task",
    "repo:{organization}/x action:task.delete", "repo:{organization}/x actor:often",
    "repo:{organization}/{repository} actor:rare", "repo:{organization}/{repository} actor:often action:task",
    "repo:{organization}/{repository} actor:rare action:hook",
)  # fmt: skip
_NO_PHRASES = (
    "action:none", "actor:nobody", "actor:often action:hook", "created:<2020-01-01", "created:>2030-01-01",
    "repo:{organization}/none", "repo:{organization}/{repository} actor:many-1",
    "repo:{organization}/{repository} actor:often action:hook",
)  # fmt: skip
_AUDIT = "organization_audit_log_list"
_ENTRIES = (
    Row(_AUDIT),
    *(Row(_AUDIT, {"phrase": each}) for each in _PHRASES),
    *(Row(_AUDIT, {"phrase": each}, finds=0) for each in _NO_PHRASES),
    *(Row(_AUDIT, {"phrase": "action:hook", "order": each}) for each in ("asc", "desc")),
    *(Row(_AUDIT, {"order": each}) for each in ("asc", "desc")),
    Row(_AUDIT, {"include": "web"}),
    Row(_AUDIT, {"include": "all"}),
    Row(_AUDIT, {"include": "git"}, finds=0),
    Row(_AUDIT, {"after": "v1_5000"}),
    Row(_AUDIT, {"before": "v1_5000"}),
    Row(_AUDIT, {"after": "v1_5000", "phrase": "actor:often"}),
)

ROWS = (
    *_DELIVERIES,
    *(
        Row("organization_deliveries_list", each, finds=0)
        for each in ({}, *({name: value} for row in _ALONE for name, value in row.items()))
    ),
    *_ACTIVITY,
    *_ENTRIES,
)
