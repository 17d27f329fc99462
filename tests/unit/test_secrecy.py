"""No class with a secret shows it in its `repr`."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import msgspec
import pytest

import workhook

SECRET = "p1ain-s3cret"
# Names of fields that contain a secret. A new field must be listed here or have another kind of name.
_HOLDS = re.compile(
    r"""^(.*_)?(secret|password|token|pem|private_key|jwt|verifier|cookie|code_verifier|device_code|refresh_token
    |access_token|authorization|secret_key|client_secret|database_url|delivery_proxy|proxy|read_body)$""",
    re.VERBOSE,
)
_MORE = {
    "Response": {"body", "headers"},  # a new token, or a session cookie
    "SignedRequest": {"headers"},  # basic authentication
    "FinishedAttempt": {"request_headers"},
}
_NONE = {
    "trust_proxy": "a switch",
    "ConfigShape": "shows secrets masked",
}


def holders() -> Iterator[tuple[type, list[str], set[str]]]:
    """Yield classes of values with their fields and those among them that contain secrets."""
    for module in pkgutil.walk_packages(workhook.__path__, "workhook."):
        if ".migrations" in module.name or module.name.endswith("__main__"):
            continue
        for name, found in vars(importlib.import_module(module.name)).items():
            if not inspect.isclass(found) or found.__module__ != module.name or name in _NONE:
                continue
            if issubclass(found, msgspec.Struct):
                names = list(found.__struct_fields__)
            elif dataclasses.is_dataclass(found):
                names = [each.name for each in dataclasses.fields(found) if each.init]
            elif issubclass(found, tuple) and hasattr(found, "_fields"):
                names = list(found._fields)
            else:
                continue
            secret = {each for each in names if _HOLDS.match(each) and each not in _NONE} | _MORE.get(name, set())
            if secret:
                yield found, names, secret


def test_classes_with_secrets_are_found() -> None:
    names = {found.__name__ for found, _, _ in holders()}
    assert {"Settings", "Hook", "Profile", "IssuedToken", "SendSettings", "Call", *_MORE} <= names


@pytest.mark.parametrize(
    ("found", "names", "secret"), list(holders()), ids=lambda value: value.__name__ if inspect.isclass(value) else ""
)
def test_repr_shows_no_secret(found: type, names: list[str], secret: set[str]) -> None:
    made = found(**{each: SECRET if each in secret else None for each in names})
    assert SECRET not in repr(made)
    assert SECRET not in str(made)
    assert SECRET not in f"{made} {made!r} {[made]}"
