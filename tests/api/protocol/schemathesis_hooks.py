"""Facts about the work API that Schemathesis cannot derive.

Schemathesis loads this file itself; see `test_schemathesis_work.py`.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import Case, HookContext
from schemathesis.core import NOT_SET
from schemathesis.core.parameters import ParameterLocation

KNOWN: dict[str, dict[str, Any]] = json.loads(Path(os.environ["WORKHOOK_TEST_THINGS"]).read_text())
"""Existing objects by operation and parameter. None means that a valid request omits the parameter."""

# `format: date-time` has no bounds, but Workhook accepts only the years 1970 to 9998.
_YEAR_THAT_IS_NOT_TAKEN = re.compile(r"^(?:0\d{3}|1[0-8]\d\d|19[0-6]\d|9999)(?=-\d\d-\d\d)")


@schemathesis.hook
def map_case(context: HookContext, case: Case[Any]) -> Case[Any]:
    """Use either the query or the body for parameters, and name existing objects in valid requests."""
    wrong = {place for place, info in (case.meta.components if case.meta else {}).items() if info.mode.is_negative}
    if case.method in ("POST", "PATCH") and case.body is not NOT_SET and case.query:
        # The body takes precedence and would hide an error in the query.
        if ParameterLocation.QUERY in wrong and ParameterLocation.BODY not in wrong:
            case.body, case.media_type = NOT_SET, None
            if case.meta:
                del case.meta.components[ParameterLocation.BODY]  # otherwise its absence would count as the error
        else:
            case.query = {}
    if not wrong:
        known = KNOWN.get(case.operation.definition.raw["operationId"], {})
        if case.query:
            case.query = _with_known_values(case.query, known)
        if case.media_type == "application/json" and case.body is not NOT_SET:
            case.body = _with_known_values(case.body, known)
        if "If-Match" in case.headers:
            case.headers["If-Match"] = "*"
        if "Idempotency-Key" in case.headers:  # a key of another request would be refused
            case.headers["Idempotency-Key"] = uuid.uuid4().hex
    return case


def _with_known_values(value: Any, known: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_with_known_values(each, known) for each in value]
    if isinstance(value, dict):
        wanted = {name: each for name, each in value.items() if each is None or known.get(name, each) is not None}
        return {
            name: each if each is None else known.get(name, _with_known_values(each, known))
            for name, each in wanted.items()
        }
    return _YEAR_THAT_IS_NOT_TAKEN.sub("2026", value) if isinstance(value, str) else value
