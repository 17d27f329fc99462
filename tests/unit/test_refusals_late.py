"""What was refused while the database was away has the time when it was written."""

from __future__ import annotations

from workhook.core import json
from workhook.identity.refusals import LATE_MS, _Alike, _row, _Seen

AT = 1_700_000_000_000
KEY = _Alike(1, None, 2, 3, None, "127.0.0.1", "hook.list", 403, "hooks", "forbidden")


def test_in_time() -> None:
    row = _row(KEY, _Seen(AT, "r", 1), AT + LATE_MS)
    assert (row["at"], json.decode(str(row["detail"]))) == (AT, {"reason": "forbidden"})


def test_late() -> None:
    row = _row(KEY, _Seen(AT, "r", 1), now := AT + LATE_MS + 1)
    told = {"reason": "forbidden", "refused_at": "2023-11-14T22:13:20.000Z"}
    assert (row["at"], json.decode(str(row["detail"]))) == (now, told)
