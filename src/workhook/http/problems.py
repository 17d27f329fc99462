"""Error responses: one renderer per style."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import Problem
from workhook.http.operations import VERSIONS, Area
from workhook.http.wire_types import Url


class WebhookFault(msgspec.Struct, omit_defaults=True):
    """One fault. Keys without a value are omitted."""

    resource: Annotated[str | None, Meta(description="The resource with the error.", examples=["Hook"])] = None
    field: Annotated[str | None, Meta(description="The field with the error, if there is one.", examples=["url"])] = (
        None
    )
    code: Annotated[str | None, Meta(description="`custom`: see the message.", examples=["custom"])] = None
    message: Annotated[str | None, Meta(description="For people.", examples=["url cannot be blank"])] = None
    value: Annotated[Any, Meta(description="The rejected value, if it helps.")] = UNSET


class WebhookProblem(msgspec.Struct):
    """An error of the webhook API."""

    message: Annotated[str, Meta(description="For people.", examples=["Not Found"])]
    documentation_url: Annotated[Url, Meta(description="The operation in `/docs`.")]
    status: Annotated[str, Meta(description="HTTP status as text.", examples=["404"])]
    errors: Annotated[
        list[WebhookFault] | str | UnsetType,
        Meta(description="All errors; a string if the requested version is not supported."),
    ] = UNSET


class WorkFault(msgspec.Struct):
    """One invalid field."""

    field: Annotated[str | None, Meta(examples=["title"])]
    code: Annotated[str, Meta(description="`missing`, `unknown`, `invalid` …: for programs.", examples=["missing"])]
    message: Annotated[str | None, Meta(description="For people.", examples=["title is required"])]


class WorkProblem(msgspec.Struct):
    """An error of the work-management API."""

    success: Annotated[bool, Meta(extra_json_schema={"const": False})]
    code: Annotated[str, Meta(description="For programs.", examples=["validation_failed"])]
    message: Annotated[str, Meta(description="For people.", examples=["Validation Failed"])]
    errors: list[WorkFault]
    request_id: Annotated[str, Meta(description="The same as `X-Request-Id`.")]


def render(problem: Problem, area: Area, *, request_id: str, documentation_url: str) -> object:
    if area.style == "envelope":
        return WorkProblem(
            success=False,
            code=problem.code,
            message=problem.message,
            errors=[WorkFault(fault.field, fault.code, fault.message) for fault in problem.faults],
            request_id=request_id,
        )
    errors: list[WebhookFault] | str | UnsetType = UNSET
    if isinstance(problem, UnsupportedVersion):
        errors = problem.errors
    elif problem.faults:
        errors = [
            WebhookFault(each.resource, each.field, each.code, each.message, each.value) for each in problem.faults
        ]
    return WebhookProblem(problem.message, documentation_url, str(problem.status), errors)


class UnsupportedVersion(Problem):
    """The version header names an unsupported version. `errors` is a string, as clients expect."""

    status, code = 400, "unsupported_version"

    def __init__(self, header: str, value: str) -> None:
        super().__init__("Bad Request")
        listed = " and ".join(
            f'"{each}"' + (" (most recent)" if index == 0 else "") for index, each in enumerate(VERSIONS)
        )
        self.errors = (
            f'The version you specified in the "{header}" request header, "{value}", is not a supported version. '
            f"The following versions are currently supported: {listed}."
        )
