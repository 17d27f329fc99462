"""The routes by which owners manage apps and installations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workhook.http.operations import AREA_B, Handler, Operation, Query
from workhook.http.paging import PAGING
from workhook.identity.apps import manage_api as api
from workhook.identity.apps import manage_installations_api as installs
from workhook.identity.apps import manage_schemas as s
from workhook.identity.apps.app_schemas import IntegrationShape

TAG = "app management"

_BAD_BODY = (400, 413, 422)


def _of_kind(kind: str) -> Iterator[Operation]:
    oauth = kind == "oauth"
    apps = "/orgs/{org}/oauth-apps" if oauth else "/orgs/{org}/apps"
    one = f"{apps}/{{client_id}}" if oauth else f"{apps}/{{slug}}"
    group, called = ("oauth_apps", "OAuth app") if oauth else ("apps", "app")
    shape: Any = s.OauthAppShape if oauth else s.AppShape

    def op(method: str, path: str, name: str, summary: str, handler: Handler, **more: Any) -> Operation:
        return Operation(
            AREA_B, method, path, handler, f"{group}_{name}", summary, "organization.admin",
            TAG, path_types={"secret_id": "integer", "key_id": "integer"}, **more,
        )  # fmt: skip

    yield op("GET", apps, "list", f"List the {called}s of the organization", api.lister(kind), query=PAGING,
             answers={200: list[shape]}, problems=(422,))  # fmt: skip
    yield op("POST", apps, "create", f"Register an {called}", api.create_oauth_app if oauth else api.create_app,
             body=s.OauthAppCreate if oauth else s.AppCreate, body_required=True, answers={201: shape},
             problems=_BAD_BODY)  # fmt: skip
    yield op("GET", one, "get", f"Get an {called}", api.get_app, answers={200: shape})
    yield op("PATCH", one, "update", f"Change an {called}", api.editor(kind),
             body=s.OauthAppEdit if oauth else s.AppEdit, answers={200: shape}, problems=_BAD_BODY)  # fmt: skip
    yield op("DELETE", one, "delete", f"Delete an {called}", api.delete_app, answers={204: None},
             description="With its tokens, what users have granted it, and the webhooks that it alone sees."
             if oauth else "With its installations, its tokens and what users have granted it.")  # fmt: skip
    yield op("POST", f"{one}/secrets", "create_secret", "Make another client secret", api.create_secret,
             answers={201: s.SecretShape}, problems=(422,),
             description="There are two at most, so that a rotation has no gap.")  # fmt: skip
    yield op("GET", f"{one}/secrets/{{secret_id}}", "get_secret", "What is known of a client secret", api.get_secret,
             answers={200: s.SecretShape})  # fmt: skip
    yield op("DELETE", f"{one}/secrets/{{secret_id}}", "delete_secret", "Delete a client secret", api.delete_secret,
             answers={204: None})  # fmt: skip
    yield op("DELETE", f"{one}/tokens", "revoke_tokens", f"Revoke every token of an {called}", api.revoke_tokens,
             answers={204: None}, description="Users have to authorise it anew.")  # fmt: skip
    if not oauth:
        yield op("GET", f"{one}/keys", "list_keys", "List the keys of an app", api.list_keys,
                 answers={200: list[s.KeyShape]})  # fmt: skip
        yield op("POST", f"{one}/keys", "create_key", "Add a key to an app", api.create_key, body=s.KeyCreate,
                 answers={201: s.KeyShape}, problems=_BAD_BODY)  # fmt: skip
        yield op("GET", f"{one}/keys/{{key_id}}", "get_key", "Get a key of an app", api.get_key,
                 answers={200: s.KeyShape})  # fmt: skip
        yield op("DELETE", f"{one}/keys/{{key_id}}", "delete_key", "Delete a key of an app", api.delete_key,
                 answers={204: None}, problems=(422,),
                 description="Not the last one: without a key an app cannot call.")  # fmt: skip


def _of_installations() -> Iterator[Operation]:
    installations = "/orgs/{org}/installations"
    one = f"{installations}/{{installation_id}}"

    def op(method: str, path: str, name: str, summary: str, handler: Handler, **more: Any) -> Operation:
        return Operation(
            AREA_B, method, path, handler, name, summary, "organization.admin", TAG,
            path_types={"installation_id": "integer"}, **more,
        )  # fmt: skip

    yield op("GET", installations, "installations_list", "List the installations on the organization",
             installs.list_installations, query=PAGING, answers={200: s.OwnInstallations},
             problems=(422,))  # fmt: skip
    yield op("POST", installations, "installations_create", "Install an app on the organization", installs.install,
             body=s.InstallationCreate, body_required=True, answers={201: s.OwnInstallationShape},
             problems=(400, 413, 422))  # fmt: skip
    yield op("GET", one, "installations_get", "Get an installation", installs.get_installation,
             answers={200: s.OwnInstallationShape})  # fmt: skip
    yield op("PATCH", one, "installations_update", "Change an installation", installs.edit_installation,
             body=s.InstallationEdit, answers={200: s.OwnInstallationShape}, problems=(400, 413, 422),
             description="Permissions that the app asks for besides are had only once they are granted here.",
             )  # fmt: skip
    yield op("DELETE", one, "installations_delete", "Uninstall an app", installs.uninstall, answers={204: None},
             query=(Query("remove_webhooks", "Whether the webhooks that it made go with it.",
                          {"type": "boolean", "default": False}),), problems=(422,),
             description="Its tokens end. Webhooks that it made are the organization's: they stay and go on, unless "
             "they are removed with it. The audit log tells how many.")  # fmt: skip
    yield op("PUT", f"{one}/suspended", "installations_suspend", "Suspend an installation", installs.suspend,
             answers={204: None}, description="Its tokens do nothing until this is taken back.")  # fmt: skip
    yield op("DELETE", f"{one}/suspended", "installations_unsuspend", "Take back a suspension", installs.unsuspend,
             answers={204: None})  # fmt: skip


def _of_repositories() -> Iterator[Operation]:
    path = "/user/installations/{installation_id}/repositories/{repository_id}"
    numbers = {"installation_id": "integer", "repository_id": "integer"}
    note = "For owners of the organization that it is on."
    yield Operation(AREA_B, "PUT", path, installs.add_repository, "user_installation_repositories_add",
                    "Let an installation reach one more repository", "installations.write", TAG,
                    path_types=numbers, answers={204: None}, problems=(422,), description=note)  # fmt: skip
    yield Operation(AREA_B, "DELETE", path, installs.remove_repository, "user_installation_repositories_remove",
                    "Take a repository from an installation", "installations.write", TAG,
                    path_types=numbers, answers={204: None}, problems=(422,),
                    description=f"{note} Not from one on all repositories, and not the last one: 422.")  # fmt: skip


OPERATIONS = (
    *_of_kind("oauth"),
    *_of_kind("app"),
    *_of_installations(),
    *_of_repositories(),
    Operation(AREA_B, "GET", "/apps/{slug}", installs.get_app, "apps_get_public", "What everybody may know of an app",
              None, TAG, answers={200: IntegrationShape},
              description="Of a private app only members of its organization know."),
)  # fmt: skip
