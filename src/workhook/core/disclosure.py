"""Texts that only some readers may see: secrets, which nothing prints, and what is told about people.

A text about somebody, such as an e-mail address, is a `PrivateText`: a string that reads as its public form everywhere.
Events, logs and whatever else is written as JSON have the public form. Only an answer to a known `Viewer` has the
private form, where that viewer may see it. So nothing leaks where somebody forgets to ask.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workhook.core.errors import Message


class Secretive:
    """A base beside `msgspec.Struct`, and before it: `repr` names the type and nothing that is in it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"

    __str__ = __repr__


class PrivateText(str):
    """A text whose value is its public form. The person and the owners of the organization `organization_id`, if there
    is one, see `private`."""

    __slots__ = ("organization_id", "person_id", "private")

    private: str
    person_id: int
    organization_id: int | None

    @classmethod
    def about(cls, person_id: int, *, public: str, private: str, organization_id: int | None = None) -> PrivateText:
        text = cls(public)
        text.private, text.person_id, text.organization_id = private, person_id, organization_id
        return text


@dataclass
class Viewer:
    """The reader of an answer. `owner_of`: ids of organizations that the reader is known to own."""

    person_id: int | None = None
    owner_of: set[int] = field(default_factory=set)

    def sees(self, text: PrivateText) -> bool:
        return text.person_id == self.person_id or text.organization_id in self.owner_of

    def disclose(self, value: object) -> str:
        """Return the form of a text that this viewer sees. An `enc_hook` of msgspec; raises as `public_form`."""
        if isinstance(value, PrivateText) and self.sees(value):
            return value.private
        return public_form(value)


def public_form(value: object) -> str:
    """Return the form of a text that everybody sees. An `enc_hook` of msgspec; raises `NotImplementedError`."""
    if isinstance(value, PrivateText | Message):
        return str.__str__(value)
    raise NotImplementedError(f"Objects of type {type(value).__name__} are no JSON")
