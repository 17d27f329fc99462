"""Billing settings, the parties and defaults of invoices: `/organizations/{login}/billing`, `/projects/{id}/billing`.

Owners see and change the settings of their organization or their own account. Members see the settings of a project,
and its admins change them; clients get 404.
"""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http.calls import Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.tokens.lookup import check_whole_account
from workhook.work.kernel.access import find_access, get_owned_account
from workhook.work.kernel.settings import AccountBillingAnswer, AccountBillingEdit, ProjectBillingAnswer
from workhook.work.money.billing import actions
from workhook.work.money.invoices import settings

_DOING = "see and change its billing settings"

routes = Routes(WORK_API, "Billing", read="work.read", write="work.write")


@routes.get("/organizations/{login}/billing")
async def get_organization_billing(call: Call, login: str) -> AccountBillingAnswer:
    """Get the billing settings of an organization.

    Only owners of the organization can call this. With your own login, it returns the settings of your account, which
    apply to the projects you own.
    """
    account = await get_owned_account(call.database, actor_of(call), login, _DOING)
    return actions.account_answer(await settings.find_account_billing(call.database, account.id))


@routes.patch("/organizations/{login}/billing")
async def edit_organization_billing(write: Write, login: str, edit: AccountBillingEdit) -> AccountBillingAnswer:
    """Update the billing settings of an organization.

    Only owners of the organization can call this. With your own login, it updates the settings of your account. The new
    settings apply to drafts; sent invoices are unchanged. Settings of a project, and values given when creating an
    invoice, take precedence.
    """
    account = await get_owned_account(write.tx, write.actor, login, _DOING)
    check_whole_account(write.actor, account.id)
    return actions.account_answer(await actions.change_account_billing(write, account, edit))


@routes.get("/projects/{id}/billing")
async def get_project_billing(call: Call, project_id: str) -> ProjectBillingAnswer:
    """Get the billing settings of a project.

    A null value means that the setting of its organization applies.
    """
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_not_client()
    return ProjectBillingAnswer(to_response(await settings.find_project_billing(call.database, access.repository.id)))


routes.patch("/projects/{id}/billing")(actions.edit_project_billing)
