"""Fixtures of the identity tests."""

from __future__ import annotations

import pytest

from tests.harness.world import make_world
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.schemas import Account


@pytest.fixture
async def people(services: Services) -> tuple[Account, Account]:
    """Return an organization and its owner."""
    world = await make_world(services)
    place, user = [await queries.find_account(services.database, each) for each in (world.organization, world.owner)]
    assert place is not None
    assert user is not None
    return place, user
