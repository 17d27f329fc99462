"""Reads what clients send about hooks, with the errors that they know. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import islice
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core.errors import FAULTS_MAX, SHOWN_MAX_CHARS, Fault, Invalid, shown
from workhook.core.secrecy import Secretive
from workhook.events.catalog import HookTarget, valid_for
from workhook.hooks.match import ANY

MASK = "********"
SECRET_KEYS = frozenset({"secret", "password"})
STANDARD_SECRET_PREFIX = b"whsec_"
ROTATION = "previous_secret_expires_in"
ROTATION_MAX_S = 7 * 24 * 3600
TEXT_MAX = 4096

# RFC 3986: what else a URL is to hold is percent-encoded. To guess what somebody meant is the receiver's misfortune.
_URL = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")
NOT_A_URL = "The URL you've entered is not valid. Please make sure that you encode all special characters first"

CONTENT_TYPES: dict[str, Literal["json", "form"]] = {
    "json": "json",
    "application/json": "json",
    "form": "form",
    "application/x-www-form-urlencoded": "form",
}
_FLAGS: dict[object, str] = {"0": "0", "1": "1", 0: "0", 1: "1"}  # True and False equal 1 and 0
_STYLES = ("github", "service", "standard")
_NOT_IN_USERNAME = re.compile("[:\\x00-\\x1f\\x7f]")
_LIMITS = {"retries": (0, 50), "max_concurrency": (1, 1000), "rate_limit": (1, 10_000)}


class ConfigChange(Secretive, msgspec.Struct):
    """`shown`: plain settings by name, None where one is to be unset. Secrets: UNSET where not mentioned or masked."""

    shown: dict[str, str | None] = msgspec.field(default_factory=dict)
    secret: str | UnsetType | None = UNSET
    secret_masked: bool = False
    password: str | UnsetType | None = UNSET
    password_masked: bool = False
    previous_secret_expires_in_s: int | None = None


class HookChange(msgspec.Struct):
    """A create or update that reads well by itself; UNSET where a field is absent."""

    config: ConfigChange | None = None
    events: list[str] | UnsetType = UNSET
    add_events: list[str] = msgspec.field(default_factory=list)
    remove_events: list[str] = msgspec.field(default_factory=list)
    active: bool | UnsetType = UNSET


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str), "a string"),
    "config": (lambda value: isinstance(value, dict), "an object"),
    "events": (lambda value: isinstance(value, list), "an array"),
    "add_events": (lambda value: isinstance(value, list), "an array"),
    "remove_events": (lambda value: isinstance(value, list), "an array"),
    "active": (lambda value: isinstance(value, bool), "a boolean"),
}


def whole_number(value: Any) -> int | None:
    """2 and 2.0 are the same number in JSON; true is none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def fault(message: str, *, field: str | None = None, code: str = "custom", **more: Any) -> Fault:
    return Fault(resource="Hook", field=field, code=code, message=message, **more)


def wrong_type(name: str, value: object, wanted: str) -> str:
    text = "nil" if value is None else shown(msgspec.json.encode(value).decode())
    return f"For 'properties/{name}', {text} is not {wanted}."


def refuse_types(complaints: list[str]) -> None:
    """Raises `Invalid` if there are complaints of `wrong_type`."""
    if complaints:
        raise Invalid("\n\n".join(["Invalid request.", *complaints[:FAULTS_MAX]]), code="wrong_type")


def check_types(body: Mapping[str, Any], fields: tuple[str, ...]) -> None:
    """Raises `Invalid` with a message that names every property of the wrong JSON type."""
    complaints = []
    for name in fields:
        if name not in body:
            continue
        fits, wanted = _TYPES[name]
        value = body[name]
        if not fits(value):
            complaints.append(wrong_type(name, value, wanted))
        elif isinstance(value, list):
            wrong = (item for item in value if not isinstance(item, str))
            complaints += [wrong_type(f"{name}/items", item, "a string") for item in islice(wrong, FAULTS_MAX)]
    refuse_types(complaints)


def parse_hook(
    body: Mapping[str, Any], target: str, check_url: Callable[[str], str | None], *, creating: bool
) -> HookChange:
    """A create or update of a hook of `target` (repository or organization). Raises `Invalid` with every fault."""
    fields: tuple[str, ...] = ("name", "config", "events", "active")
    if not creating and target == "repository":
        fields += ("add_events", "remove_events")
    check_types(body, fields)
    faults: list[Fault] = []
    if creating and ("name" in body or target == "organization") and body.get("name") != "web":
        faults.append(Fault(resource="Hook", field="name", code="invalid", value=_echo(body.get("name"))))
    change = HookChange(active=body.get("active", UNSET))
    for name in ("events", "add_events", "remove_events"):
        if name in fields and name in body:
            names = list(dict.fromkeys(body[name]))
            if name != "remove_events":
                faults += unknown_events(names, target)
            setattr(change, name, names)
    if change.events == []:
        change.events = ["push"]
    if body.get("config") or creating:
        change.config = parse_config(body.get("config", {}), check_url, faults)
        must_have_url = creating or target == "organization"
        if must_have_url and not change.config.shown.get("url") and not _complained(faults, "url"):
            faults.append(fault("url cannot be blank", field="url"))
    if faults:
        raise Invalid(faults=faults)
    return change


def unknown_events(names: list[str], target: str) -> list[Fault]:
    kind: HookTarget = "repository" if target == "repository" else "organization"
    unknown = (name for name in names if name != ANY and not valid_for(name, kind))
    return [fault(f"{shown(name)} is not a valid event name") for name in islice(unknown, FAULTS_MAX)]


def _echo(value: object) -> object:
    encoded = msgspec.json.encode(value)
    return value if len(encoded) <= 4 * SHOWN_MAX_CHARS else shown(encoded.decode())


def _complained(faults: list[Fault], field: str) -> bool:
    return any(each.field == field for each in faults)


def parse_config(
    config: Mapping[str, Any], check_url: Callable[[str], str | None], faults: list[Fault]
) -> ConfigChange:
    """What is wrong is appended to `faults`; an unset setting is None."""
    change = ConfigChange()
    for key, value in config.items():
        if len(faults) >= FAULTS_MAX:
            break
        reader = _READERS.get(key)
        if key in SECRET_KEYS:
            _read_secret(change, key, value, faults)
        elif key == ROTATION:
            change.previous_secret_expires_in_s = _read_rotation(value, faults)
        elif key == "url":
            change.shown["url"] = _read_url(value, check_url, faults)
        elif reader is None:
            faults.append(fault(f"Invalid config attribute: {shown(key)}"))
        elif value is None or value == "":
            change.shown[key] = None
        else:
            change.shown[key] = reader(key, value, faults)
    if change.previous_secret_expires_in_s is not None and change.secret is UNSET:
        faults.append(fault(f"{ROTATION} goes with a new secret", field=ROTATION))
    return change


def _read_url(value: Any, check_url: Callable[[str], str | None], faults: list[Fault]) -> str | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        faults.append(fault("url cannot be blank", field="url"))
        return None
    if not isinstance(value, str):
        faults.append(fault("url must be a string", field="url"))
        return None
    reason = check_url(value) if _URL.fullmatch(value) else NOT_A_URL
    if len(value) > TEXT_MAX:
        reason = f"url is longer than {TEXT_MAX} characters"
    if reason is not None:
        faults.append(fault(reason, field="url"))
    return value


def _read_secret(change: ConfigChange, key: str, value: Any, faults: list[Fault]) -> None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)  # Terraform and shells send numbers where the secret is all digits
    if value is not None and not isinstance(value, str):
        faults.append(fault(f"{key} must be a string", field=key))
    elif value is not None and len(value) > TEXT_MAX:
        faults.append(fault(f"{key} is longer than {TEXT_MAX} characters", field=key))
    elif value == MASK:
        setattr(change, f"{key}_masked", True)
    else:
        setattr(change, key, value or None)


def _read_rotation(value: Any, faults: list[Fault]) -> int | None:
    seconds = whole_number(value)
    if seconds is None or not 0 <= seconds <= ROTATION_MAX_S:
        faults.append(fault(f"{ROTATION} must be seconds, at most {ROTATION_MAX_S}", field=ROTATION))
        return None
    return seconds


def _read_content_type(key: str, value: Any, faults: list[Fault]) -> str | None:
    """As it was written: Terraform compares it with its own, and plans a change where there is another word for it."""
    if isinstance(value, str) and value in CONTENT_TYPES:
        return value
    known = CONTENT_TYPES.get(value.strip().lower()) if isinstance(value, str) else None
    if known is None:
        faults.append(fault("content_type must be json or form", field=key))
    return known


def _read_flag(key: str, value: Any, faults: list[Fault]) -> str | None:
    known = _FLAGS.get(value) if isinstance(value, (str, int, float)) else None
    if known is None:
        faults.append(fault(f"{key} must be 0 or 1", field=key))
    return known


def _read_style(key: str, value: Any, faults: list[Fault]) -> str | None:
    if value not in _STYLES:
        faults.append(fault(f"{key} must be github, service or standard", field=key))
        return None
    return str(value)


def standard_key(secret: bytes) -> bytes | None:
    """The key of a secret as Standard Webhooks writes it: `whsec_` and base64. None for any other secret."""
    if not secret.startswith(STANDARD_SECRET_PREFIX):
        return None
    try:
        return base64.b64decode(secret.removeprefix(STANDARD_SECRET_PREFIX), validate=True) or None
    except binascii.Error:
        return None


def require_standard_secret(config: Mapping[str, str], secret: str | None) -> None:
    """Raises `Invalid` where the header style needs a secret of another form: its receivers would refuse everything."""
    if config.get("header_style") == "standard" and (secret is None or standard_key(secret.encode()) is None):
        message = "secret must be whsec_ and a key in base64 where header_style is standard"
        raise Invalid(faults=[fault(message, field="secret")])


def _read_number(key: str, value: Any, faults: list[Fault]) -> str | None:
    low, high = _LIMITS[key]
    number = whole_number(value)
    text = value if isinstance(value, str) else "" if number is None else str(number)
    if text not in _numbers(low, high):
        faults.append(fault(f"{key} must be a whole number from {low} to {high}", field=key))
        return None
    return text


@cache
def _numbers(low: int, high: int) -> frozenset[str]:
    """As they are written: without signs, spaces or leading zeros."""
    return frozenset(map(str, range(low, high + 1)))


def _read_username(key: str, value: Any, faults: list[Fault]) -> str | None:
    if not isinstance(value, str) or len(value) > TEXT_MAX or _NOT_IN_USERNAME.search(value):
        faults.append(fault("username must be text without colons and control characters", field=key))
        return None
    return value


_READERS: dict[str, Callable[[str, Any, list[Fault]], str | None]] = {
    "content_type": _read_content_type,
    "insecure_ssl": _read_flag,
    "header_style": _read_style,
    "username": _read_username,
    **dict.fromkeys(_LIMITS, _read_number),
}
