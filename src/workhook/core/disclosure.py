"""Values that only some readers may see: secrets, which are never printed, and personal data.

Personal data, such as an e-mail address, is a `PrivateText`: a string whose value is its public form. Events, logs and
all other JSON contain the public form. Only a response to a known `Viewer` contains the private form, and only if that
viewer may see it, so forgetting a check cannot leak anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workhook.core.errors import Message


class HiddenRepr:
    """Mixin for `msgspec.Struct`, listed before it, whose `repr` shows the type without the contents."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"

    __str__ = __repr__


class PrivateText(str):
    """A string whose value is its public form.

    The person, and the owners of the organization `organization_id` if there is one, see `private`.
    """

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
    """The reader of a response. `owner_of` contains IDs of organizations that the reader is known to own."""

    person_id: int | None = None
    owner_of: set[int] = field(default_factory=set)

    def sees(self, text: PrivateText) -> bool:
        return text.person_id == self.person_id or text.organization_id in self.owner_of

    def disclose(self, value: object) -> str:
        """Return the form of a value that this viewer sees. A msgspec `enc_hook`; raises like `public_form`."""
        if isinstance(value, PrivateText) and self.sees(value):
            return value.private
        return public_form(value)


def public_form(value: object) -> str:
    """Return the form of a value that everyone sees.

    A msgspec `enc_hook`; raises `NotImplementedError` for other types.
    """
    if isinstance(value, PrivateText | Message):
        return str.__str__(value)
    raise NotImplementedError(f"Objects of type {type(value).__name__} cannot be encoded as JSON")
