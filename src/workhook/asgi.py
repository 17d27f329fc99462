"""All routes of the server, and the application built from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from workhook.hooks import api as hooks_api
from workhook.http import openapi, routing, system
from workhook.http.calls import Call, Services
from workhook.http.operations import Operation
from workhook.identity import api as identity_api
from workhook.identity import audit_api
from workhook.identity import policy as identity_policy
from workhook.identity.apps import app_api, manage_api
from workhook.identity.audit import Refusals
from workhook.identity.authenticator import Authenticator
from workhook.identity.oauth import api as oauth_api
from workhook.identity.oauth import applications
from workhook.identity.rate import PageLimiter, RateLimiter
from workhook.identity.tokens import personal as tokens_api
from workhook.storage.migrate import check_schema
from workhook.web import operations as web_operations
from workhook.web.docs import pages
from workhook.web.frame import render
from workhook.work import operations as work_operations
from workhook.work.administration import accounts, deletion
from workhook.work.people.invitations import organization, repository


def operations(
    services: Callable[[], Services],
    checks: Callable[[], dict[str, str]],
    metrics: Callable[[], Awaitable[bytes]] = system.own_metrics,
) -> tuple[Operation, ...]:
    areas: Sequence[Operation] = (
        *web_operations.beside(identity_api.OPERATIONS),
        *audit_api.routes,
        *app_api.routes,
        *tokens_api.routes,
        *manage_api.oauth_apps,
        *manage_api.apps,
        *web_operations.beside(manage_api.installations),
        *hooks_api.OPERATIONS,
        *work_operations.OPERATIONS,
        *organization.routes,
        *repository.routes,
        *accounts.routes,
        *deletion.routes,
        *web_operations.OPERATIONS,
        *oauth_api.routes,
        *applications.routes,
        *system.operations(system.probes(services), checks, metrics),
    )
    pages.register_operations(areas)
    return (*areas, *openapi.operations(areas, identity_policy.access_of))


def _no_services() -> NoReturn:
    raise AssertionError("these operations are there to be read, not to be called")


def described() -> tuple[Operation, ...]:
    """Return all routes for inspection. They cannot be called."""
    return operations(_no_services, _no_services)


def build_watch_app(services: Services, checks: Callable[[], dict[str, str]]) -> routing.AsgiApp:
    """Build the application for a worker: only health and metrics. `http.system` decides who may read them."""

    async def anybody(call: Call) -> None:
        return None

    schema = system.Probe("schema", lambda: check_schema(services.database))
    probes = [*system.probes(lambda: services), schema]
    return routing.AsgiApp(system.operations(probes, checks), lambda: services, anybody)


def build_app(
    services: Services,
    checks: Callable[[], dict[str, str]] = dict,
    metrics: Callable[[], Awaitable[bytes]] = system.own_metrics,
) -> routing.AsgiApp:
    limiter, refusals = RateLimiter(services.settings.api_rate_limit, services.database), Refusals(services.database)
    pages = PageLimiter(services.settings.page_rate_limit)
    authenticator = Authenticator(limiter, pages, services.database)
    services = replace(services, count_form=limiter.count_form, count_page=pages.count_user)
    services.closing.extend((limiter.close, refusals.close, lambda: authenticator.close(services.settings.drain_s)))
    return routing.AsgiApp(
        operations(lambda: services, checks, metrics),
        lambda: services,
        authenticator,
        refused=refusals.note,
        problem_page=render.problem_page,
    )
