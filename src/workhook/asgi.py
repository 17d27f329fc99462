"""Every route of the server, and the application made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from litestar import Litestar

from workhook.hooks import operations as hook_operations
from workhook.http import openapi, routing, system
from workhook.http.calls import Services
from workhook.http.operations import Operation
from workhook.identity import api as identity_api
from workhook.identity import policy as identity_policy
from workhook.identity.guard import Guard
from workhook.identity.rate import RateLimiter
from workhook.work import operations as work_operations


def operations(services: Callable[[], Services], checks: Callable[[], dict[str, str]]) -> tuple[Operation, ...]:
    """Every route of the server."""
    areas: Sequence[Operation] = (
        *identity_api.OPERATIONS,
        *hook_operations.OPERATIONS,
        *work_operations.OPERATIONS,
        *system.operations(system.Probe(lambda: services().database), checks),
    )
    return (*areas, *openapi.operations(areas, identity_policy.access_of))


def build_app(services: Services, checks: Callable[[], dict[str, str]] = dict) -> Litestar:
    guard = Guard(RateLimiter(services.settings.api_rate_limit))
    return routing.build(operations(lambda: services, checks), lambda: services, guard)
