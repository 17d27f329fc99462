"""`/organizations/{login}/billing` and `/projects/{id}/billing`: the parties and the defaults of invoices.

Owners see and change the settings of their organization, or of their own account. The members of a project see its
settings, its admins change them; they do not exist for clients.
"""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http.calls import Call
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.tokens.lookup import check_whole_account
from workhook.work.kernel.access import find_access, find_owned
from workhook.work.kernel.settings import AccountBillingAnswer, AccountBillingEdit, ProjectBillingAnswer
from workhook.work.money.billing import actions
from workhook.work.money.invoices import settings

_DOING = "see and change its billing settings"

routes = Routes(WORK_API, "Billing", read="work.read", write="work.write")


@routes.get("/organizations/{login}/billing")
async def get_organization_billing(call: Call, login: str) -> AccountBillingAnswer:
    """Get the billing settings of an organization.

    For owners of the organization. With your own login: those of your own account, for the projects that you own.
    """
    account = await find_owned(call.database, actor_of(call), login, _DOING)
    return actions.account_answer(await settings.find_account_billing(call.database, account.id))


@routes.patch("/organizations/{login}/billing")
async def edit_organization_billing(write: Write, login: str, edit: AccountBillingEdit) -> AccountBillingAnswer:
    """Change the billing settings of an organization.

    For owners of the organization. With your own login: those of your own account. Drafts show the new settings,
    invoices that were sent stay as they are. What a project says of itself, and what a request for an invoice says,
    counts before this.
    """
    account = await find_owned(write.tx, write.actor, login, _DOING)
    check_whole_account(write.actor, account.id)
    return actions.account_answer(await actions.change_account_billing(write, account, edit))


@routes.get("/projects/{id}/billing")
async def get_project_billing(call: Call, project_id: str) -> ProjectBillingAnswer:
    """Get the billing settings of a project.

    What is null is as in the settings of its organization.
    """
    access = await find_access(call.database, actor_of(call), project_id)
    access.hide_from_clients()
    return ProjectBillingAnswer(to_response(await settings.find_project_billing(call.database, access.repository.id)))


routes.patch("/projects/{id}/billing")(actions.edit_project_billing)
