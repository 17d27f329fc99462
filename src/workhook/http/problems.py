"""How an error looks on the wire: one renderer per style."""

from __future__ import annotations

from typing import Any

import msgspec

from workhook.core.errors import Fault, Problem
from workhook.http.operations import Area


class GithubFault(msgspec.Struct, omit_defaults=True):
    """One entry of `errors` in Area B."""

    resource: str | None = None
    field: str | None = None
    code: str | None = None
    message: str | None = None
    value: Any = msgspec.UNSET


class GithubProblem(msgspec.Struct):
    """An error of Area B."""

    message: str
    documentation_url: str
    status: str
    errors: list[GithubFault] | str | msgspec.UnsetType = msgspec.UNSET


class EnvelopeFault(msgspec.Struct):
    field: str | None
    code: str
    message: str | None


class EnvelopeProblem(msgspec.Struct):
    """An error of Area A."""

    success: bool
    code: str
    message: str
    errors: list[EnvelopeFault]
    request_id: str


def render(problem: Problem, area: Area, *, request_id: str, documentation_url: str) -> object:
    """The body of the answer."""
    if area.style == "envelope":
        return EnvelopeProblem(
            success=False,
            code=problem.code,
            message=problem.message,
            errors=[EnvelopeFault(fault.field, fault.code, fault.message) for fault in problem.faults],
            request_id=request_id,
        )
    errors: list[GithubFault] | str | msgspec.UnsetType = msgspec.UNSET
    if isinstance(problem, UnsupportedVersion):
        errors = problem.errors
    elif problem.faults:
        errors = [_github_fault(fault) for fault in problem.faults]
    return GithubProblem(problem.message, documentation_url, str(problem.status), errors)


def _github_fault(fault: Fault) -> GithubFault:
    return GithubFault(fault.resource, fault.field, fault.code, fault.message, fault.value)


class UnsupportedVersion(Problem):
    """The version header names a version that is not served; `errors` is a string, as clients know it."""

    status, code = 400, "unsupported_version"

    def __init__(self, header: str, value: str, supported: tuple[str, ...]) -> None:
        super().__init__("Bad Request")
        listed = " and ".join(
            f'"{each}"' + (" (most recent)" if index == 0 else "") for index, each in enumerate(supported)
        )
        self.errors = (
            f'The version you specified in the "{header}" request header, "{value}", is not a supported version. '
            f"The following versions are currently supported: {listed}."
        )
