"""Lanes without a database."""

from __future__ import annotations

from workhook.delivery.lanes import Lane, PendingAttempt
from workhook.delivery.sign import Profile, Signer
from workhook.hooks.schemas import Hook


def lane_with(hook_id: int, *, waiting: int, **config: str) -> Lane:
    """Return a lane of a hook with `waiting` due deliveries."""
    hook = Hook(
        id=hook_id,
        account_id=1,
        repository_id=None,
        active=True,
        events=["push"],
        config={"url": "http://127.0.0.1/", **config},
        secret=None,
        previous_secret=None,
        previous_secret_until=None,
        password=None,
        version=1,
        created_at=0,
        updated_at=0,
    )
    lane = Lane(hook, Signer(Profile(hook_id=hook_id, target_id=1, target_type="organization")), 2**53, connected=True)
    for number in range(waiting):
        lane.ready.append(
            PendingAttempt(
                id=hook_id * 1000 + number,
                event_id=number,
                guid=f"{hook_id}-{number}",
                attempts=0,
                retries=0,
                wanted=0,
                due_at=0,
                event="push",
                action=None,
                repository_id=None,
                size=2,
                payload=b"{}",
            )
        )
    return lane
