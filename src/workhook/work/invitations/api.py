"""The routes of members, collaborators and invitations. Area B: the paths and shapes are GitHub's."""

from __future__ import annotations

from typing import Any

from workhook.http.operations import AREA_B, Handler, Operation
from workhook.http.paging import PAGING
from workhook.identity.invitation_schemas import OrganizationInvitation, RepositoryInvitation
from workhook.identity.invitations import PENDING_MAX
from workhook.identity.member_schemas import Membership
from workhook.work.invitations import bodies, organization, repository

TAG = "people"
_BAD_BODY = (400, 413, 422)
_ORG, _REPO = "/orgs/{org}", "/repos/{owner}/{repo}"
_INVITED = (
    "Nothing is theirs before they accept. The invitation holds for 7 days, and as long as the inviter may invite. "
    f"Of one place at most {PENDING_MAX:,} wait at a time: 422."
)
_GOES = "The roles that the person was given in the organization's repositories end, too."


def _op(method: str, path: str, name: str, summary: str, access: str, handler: Handler, **more: Any) -> Operation:
    return Operation(
        AREA_B, method, path, handler, name, summary, access, TAG, path_types={"invitation_id": "integer"}, **more
    )


OPERATIONS: tuple[Operation, ...] = (
    _op("GET", f"{_ORG}/invitations", "organization_invitations_list", "List the invitations to an organization",
        "organization.people", organization.list_invitations, query=PAGING,
        answers={200: list[OrganizationInvitation]}, problems=(422,)),
    _op("POST", f"{_ORG}/invitations", "organization_invitations_create", "Invite somebody to an organization",
        "organization.people", organization.create_invitation, body=bodies.OrganizationInvitationBody,
        body_required=True, answers={201: OrganizationInvitation}, problems=_BAD_BODY, description=_INVITED),
    _op("DELETE", f"{_ORG}/invitations/{{invitation_id}}", "organization_invitations_cancel",
        "Take back an invitation to an organization", "organization.people", organization.cancel_invitation,
        answers={204: None}),
    _op("PUT", f"{_ORG}/memberships/{{username}}", "organization_memberships_set",
        "Invite somebody to an organization, or change the role of a member", "organization.people",
        organization.set_membership, body=bodies.MembershipBody, answers={200: Membership}, problems=_BAD_BODY,
        description="Somebody in another organization that the caller owns is a member at once; others are invited: "
                    f"`state` is `pending`. {_INVITED} The last owner stays one: 422."),
    _op("DELETE", f"{_ORG}/memberships/{{username}}", "organization_memberships_remove",
        "Remove somebody from an organization, leave it, or decline an invitation to it", "organization.decline",
        organization.remove_membership, answers={204: None}, problems=(422,),
        description="Owners remove others, and take back invitations; anybody can leave, and an invited person "
                    f"declines. The last owner cannot leave: 422. {_GOES}"),
    _op("DELETE", f"{_ORG}/members/{{username}}", "organization_members_remove",
        "Remove a member of an organization, or leave it", "organization.leave", organization.remove_member,
        answers={204: None}, problems=(422,),
        description=f"Owners remove others; anybody can leave. The last owner cannot: 422. {_GOES}"),
    _op("PATCH", "/user/memberships/orgs/{org}", "user_memberships_accept", "Accept an invitation to an organization",
        "user.memberships", organization.accept, body=bodies.AcceptBody, body_required=True,
        answers={200: Membership}, problems=(400, 404, 413, 422)),
    _op("PUT", f"{_REPO}/collaborators/{{username}}", "repository_collaborators_set",
        "Add somebody to a repository, or invite them", "repository.people", repository.set_collaborator,
        body=bodies.CollaboratorBody, answers={201: RepositoryInvitation, 204: None}, problems=_BAD_BODY,
        description="204: somebody who is in the organization, in another one together with the caller, or in the "
                    f"repository already has the role now. 201: others are invited. {_INVITED}"),
    _op("DELETE", f"{_REPO}/collaborators/{{username}}", "repository_collaborators_remove",
        "Remove somebody who was added to a repository, or leave it", "repository.leave",
        repository.remove_collaborator, answers={204: None},
        description="Admins remove others, and take back invitations; anybody can leave. What the organization gives "
                    "stays."),
    _op("GET", f"{_REPO}/invitations", "repository_invitations_list", "List the invitations to a repository",
        "repository.people", repository.list_invitations, query=PAGING, answers={200: list[RepositoryInvitation]},
        problems=(422,)),
    _op("PATCH", f"{_REPO}/invitations/{{invitation_id}}", "repository_invitations_update",
        "Change what an invitation to a repository gives", "repository.people", repository.update_invitation,
        body=bodies.RepositoryInvitationBody, body_required=True, answers={200: RepositoryInvitation},
        problems=_BAD_BODY),
    _op("DELETE", f"{_REPO}/invitations/{{invitation_id}}", "repository_invitations_cancel",
        "Take back an invitation to a repository", "repository.people", repository.cancel_invitation,
        answers={204: None}),
    _op("GET", "/user/repository_invitations", "user_repository_invitations_list",
        "List the repositories that the caller is invited to", "user.invitations", repository.list_own, query=PAGING,
        answers={200: list[RepositoryInvitation]}, problems=(422,)),
    _op("PATCH", "/user/repository_invitations/{invitation_id}", "user_repository_invitations_accept",
        "Accept an invitation to a repository", "user.invitations", repository.accept, answers={204: None},
        problems=(404,)),
    _op("DELETE", "/user/repository_invitations/{invitation_id}", "user_repository_invitations_decline",
        "Decline an invitation to a repository", "user.invitations", repository.decline, answers={204: None},
        problems=(404,)),
)  # fmt: skip
