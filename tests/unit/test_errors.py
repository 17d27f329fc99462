"""The messages of problems."""

from __future__ import annotations

from workhook.core.errors import Conflict, Fault, Invalid


def test_the_reasons_are_those_of_the_faults_or_the_problems_own() -> None:
    faults = [Fault(field="title", message="title is too long"), Fault(field="name", code="taken")]
    assert Invalid(faults=faults).reasons == ["title is too long"]
    assert Conflict("It is archived.").reasons == ["It is archived."]
    assert Invalid(faults=faults[1:]).reasons == [Invalid(faults=[]).message]
