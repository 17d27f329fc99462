"""The messages of problems."""

from __future__ import annotations

from workhook.core.errors import Conflict, Fault, Invalid


def test_a_problem_without_fault_messages_has_its_own_message_as_reason() -> None:
    faults = [Fault(field="title", message="title is too long"), Fault(field="name", code="taken")]
    assert Invalid(faults=faults).reasons == ["title is too long"]
    assert Conflict("It is archived.").reasons == ["It is archived."]
    assert Invalid(faults=faults[1:]).reasons == [Invalid(faults=[]).message]
