"""Rows like those of `filled.py`, for webhooks, events and the audit log."""

from __future__ import annotations

from tests.plans.filled import AT, IN_PROJECT, OFTEN_OR_RARE, RARE, ROWS, TIMES, Fill

HOOK, OTHER_HOOK = 900_001, 900_002
"""The webhook in the project under test, and the one in the other project."""

IN_HOOK = f"CASE WHEN i % 2 = 0 THEN {HOOK} ELSE {OTHER_HOOK} END"
IN_ORGANIZATION = "CASE WHEN i % 2 = 0 THEN {organization} ELSE {other_organization} END"
GUID = "('guid-' || i)"

_HOOK = {
    "active": "false", "events": "'[\"*\"]'", "config": "'{{\"url\":\"http://127.0.0.1/\"}}'", "version": "1", **TIMES,
}  # fmt: skip

HISTORY = (
    Fill(
        "hooks",
        {"id": f"i + {HOOK}", "account_id": "{organization}", "repository_id": IN_PROJECT, **_HOOK},
        rows=2,
    ),
    Fill(
        "hooks",
        {"id": "i + 100000", "account_id": "{organization}", "repository_id": IN_PROJECT, **_HOOK},
    ),
    Fill(
        "hooks",
        {"id": "i + 200000", "account_id": IN_ORGANIZATION, "repository_id": "CAST(NULL AS BIGINT)", **_HOOK},
    ),
    Fill(
        "deliveries",
        {
            "dispatch_id": "i + 1", "hook_id": IN_HOOK, "event_id": "i + 1", "repository_id": IN_PROJECT,
            "guid": GUID, "event": f"CASE WHEN {RARE} THEN 'fork' ELSE 'push' END",
            "action": f"CASE WHEN {RARE} THEN 'rare' ELSE 'often' END", "delivered_at": AT, "duration_ms": "1",
            "redelivery": RARE, "status": "'OK'", "status_code": f"CASE WHEN {RARE} THEN 500 ELSE 200 END",
            "url": "'http://127.0.0.1/'", "request_headers": "CAST('{{}}' AS {bytes})",
            "response_headers": "CAST('{{}}' AS {bytes})", "response_body": "CAST('' AS {bytes})",
        },
    ),
    Fill(
        "dispatches",
        {
            "id": "i + 1", "event_id": "i + 1", "hook_id": IN_HOOK, "guid": GUID, "attempts": "1", "retries": "1",
            "wanted": "0", "next_attempt_at": "4102444800000 + i", "created_at": AT,
        },
    ),
    Fill(
        "events",
        {
            "account_id": "{organization}", "repository_id": IN_PROJECT,
            "name": f"CASE WHEN {RARE} THEN 'fork' ELSE 'push' END", "payload": "CAST('{{}}' AS {bytes})",
            "size": "2", "created_at": AT, "actor_id": OFTEN_OR_RARE, "listed": "true",
        },
    ),
    Fill(
        "audit_log",
        {
            "at": AT, "account_id": IN_ORGANIZATION, "repository_id": "{repository}", "actor_id": OFTEN_OR_RARE,
            "action": f"CASE WHEN {RARE} THEN 'hook.create' ELSE 'task.create' END",
            "target": "'x'", "detail": "'{{}}'",
        },
    ),
    Fill(
        "audit_log",
        {
            "at": AT, "account_id": "{organization}", "repository_id": "{other_repository}", "actor_id": "{often}",
            "action": "'task.delete'", "target": "'x'", "detail": "'{{}}'",
        },
        rows=4,
    ),
)  # fmt: skip
assert ROWS > 1000
