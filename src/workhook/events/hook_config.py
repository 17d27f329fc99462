"""A webhook's configuration. One table of its keys defines both the JSON Schema and the validation. No side effects."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import FAULTS_MAX, Fault, Invalid, compose, must_be, say, shown

Schema = dict[str, Any]

MASK = "********"
_MASKING = "*•●⬤⚫∙·"  # characters that programs and pages show instead of a secret
STANDARD_SECRET_PREFIX = b"whsec_"
TEXT_MAX = 4096
ROTATION_MAX_S = 7 * 24 * 3600
CONTENT_TYPES: dict[str, Literal["json", "form"]] = {
    "json": "json",
    "form": "form",
    "application/json": "json",
    "application/x-www-form-urlencoded": "form",
}

# RFC 3986: other characters must be percent-encoded. If the server guessed the intent, receivers would suffer.
_URL = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")
_NOT_A_URL = "The URL you've entered is not valid. Please make sure that you encode all special characters first"
_USERNAME = "[^:\\x00-\\x1f\\x7f]*"
_FLAGS: dict[object, str] = {"0": "0", "1": "1", 0: "0", 1: "1"}  # True and False equal 1 and 0
_STYLES = ("github", "service", "standard")
_ROTATION = "previous_secret_expires_in"
_UNSETS = "Null or an empty string unsets it."


class ConfigChange(HiddenRepr, msgspec.Struct):
    """The parsed configuration. `shown` contains plain settings by name, with None for those to unset.

    Secrets are UNSET if they are absent or masked.
    """

    shown: dict[str, str | None] = msgspec.field(default_factory=dict)
    secret: str | UnsetType | None = UNSET
    secret_masked: bool = False
    password: str | UnsetType | None = UNSET
    password_masked: bool = False
    previous_secret_expires_in_s: int | None = None


class ConfigKey(NamedTuple):
    """A configuration key. `read` stores the value in the change and returns why it is invalid, or None."""

    read: Callable[[ConfigChange, Any], str | None]
    schema: Schema


def fault(message: str, *, field: str | None = None) -> Fault:
    return Fault(resource="Hook", field=field, code="custom", message=message)


def whole_number(value: Any) -> int | None:
    """Return the integer value, also of 2.0, which is the same number in JSON, but not of true."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _plain(key: str, parse: Callable[[Any], str | None], allowed: str, description: str, **schema: Any) -> ConfigKey:
    """Return a key whose `parse` returns the text to store, or None for an invalid value."""

    def read(change: ConfigChange, value: Any) -> str | None:
        if value is None or value == "":
            change.shown[key] = None
            return None
        change.shown[key] = known = parse(value)
        return None if known is not None else must_be(key, allowed)

    return ConfigKey(read, {"description": f"{description} {_UNSETS}", **schema})


def _number(key: str, low: int, high: int, pattern: str, description: str, example: int) -> ConfigKey:
    """Return a key for integers. `pattern` matches them as text, without signs, spaces or leading zeros."""
    numbers = re.compile(pattern)

    def parse(value: Any) -> str | None:
        text = value if isinstance(value, str) else str(whole_number(value))
        return text if numbers.fullmatch(text) else None

    kinds: list[Schema] = [
        {"type": "integer", "minimum": low, "maximum": high},
        {"type": "string", "pattern": f"^({pattern})?$"},
        {"type": "null"},
    ]
    text = f"{description} From {low} to {high}, also as text."
    return _plain(key, parse, compose("a whole number from {} to {}", low, high), text, anyOf=kinds, examples=[example])


def _secret(key: str, description: str, **schema: Any) -> ConfigKey:
    def read(change: ConfigChange, value: Any) -> str | None:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = str(value)  # Terraform and shells send a number if the secret is all digits
        if value is not None and not isinstance(value, str):
            return say("{} must be a string", key)
        if value is not None and len(value) > TEXT_MAX:
            return say("{} is longer than {} characters", key, TEXT_MAX)
        if value is not None and is_mask(value):
            setattr(change, f"{key}_masked", True)
        else:
            setattr(change, key, value or None)
        return None

    text = f"{description} {_UNSETS} `{MASK}` keeps the stored value, and is invalid if none is stored."
    kinds = ["string", "number", "null"]
    return ConfigKey(read, {"description": text, "type": kinds, "maxLength": TEXT_MAX, **schema})


def _read_url(change: ConfigChange, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return "url cannot be blank"
    if not isinstance(value, str):
        return say("{} must be a string", "url")
    change.shown["url"] = value
    if len(value) > TEXT_MAX:
        return say("{} is longer than {} characters", "url", TEXT_MAX)
    return None if _URL.fullmatch(value) else _NOT_A_URL


def _read_rotation(change: ConfigChange, value: Any) -> str | None:
    seconds = whole_number(value)
    if seconds is None or not 0 <= seconds <= ROTATION_MAX_S:
        return say("{} must be a number of seconds, at most {}", _ROTATION, ROTATION_MAX_S)
    change.previous_secret_expires_in_s = seconds
    return None


def _content_type(value: Any) -> str | None:
    """Keep a known value as written, because Terraform would plan a change for a synonym."""
    if isinstance(value, str) and value in CONTENT_TYPES:
        return value
    return CONTENT_TYPES.get(value.strip().lower()) if isinstance(value, str) else None


def _username(value: Any) -> str | None:
    fits = isinstance(value, str) and len(value) <= TEXT_MAX and re.fullmatch(_USERNAME, value)
    return value if fits else None


CONFIG_KEYS: dict[str, ConfigKey] = {
    "url": ConfigKey(
        _read_url,
        {"description": "The receiver.", "type": "string", "format": "uri", "pattern": "^https?://",
         "maxLength": TEXT_MAX, "examples": ["https://example.com/webhook"]},
    ),
    "content_type": _plain(
        "content_type", _content_type, "json or form",
        "How payloads are sent. Default: `form`, which is `payload=` and the URL-encoded JSON.",
        enum=[*CONTENT_TYPES, "", None], examples=["json"],
    ),
    "secret": _secret("secret", "Signs payloads.", examples=["s3cret"]),
    "insecure_ssl": _plain(
        "insecure_ssl", lambda value: _FLAGS.get(value) if isinstance(value, (str, int, float)) else None, "0 or 1",
         "1: the receiver's certificate is not verified.",
        enum=["0", "1", 0, 1, False, True, "", None], default="0", examples=["0"],
    ),
    "username": _plain(
        "username", _username, "text without colons and control characters",
        "For HTTP basic authentication: text without a colon.",
        type=["string", "null"], pattern=f"^{_USERNAME}$", maxLength=TEXT_MAX, examples=["octo"],
    ),
    "password": _secret("password", "For HTTP basic authentication.", examples=["s3cret-of-octo"]),
    "header_style": _plain(
        "header_style", lambda value: value if value in _STYLES else None, "github, service, or standard",
        "Names of the headers. `github`: `X-Service-*`, and the same ones as `X-GitHub-*`; `service`: only "
        "`X-Service-*`; `standard`: both, and those of Standard Webhooks, which require a secret `whsec_…`.",
        enum=[*_STYLES, "", None], default="github", examples=["github"],
    ),
    "retries": _number("retries", 0, 50, "[0-9]|[1-4][0-9]|50", "Retries after a failed attempt.", 8),
    "max_concurrency": _number("max_concurrency", 1, 1000, "[1-9][0-9]{0,2}|1000", "Deliveries in flight at once.", 10),
    "rate_limit": _number("rate_limit", 1, 10_000, "[1-9][0-9]{0,3}|10000", "Deliveries per second.", 100),
    _ROTATION: ConfigKey(
        _read_rotation,
        {"description": "With a new secret: seconds during which the old one also signs, if the style supports two.",
         "type": "integer", "minimum": 0, "maximum": ROTATION_MAX_S,
         "examples": [86400]},
    ),
}  # fmt: skip


def config_schema(title: str, description: str, *required: str) -> Schema:
    return {
        "title": title,
        "description": description,
        "type": "object",
        "properties": {name: key.schema for name, key in CONFIG_KEYS.items()},
        **({"required": list(required)} if required else {}),
        "additionalProperties": False,
        "dependentRequired": {_ROTATION: ["secret"]},
    }


def parse_config(
    config: Mapping[str, Any], check_url: Callable[[str], str | None], faults: list[Fault]
) -> ConfigChange:
    """Parse a configuration, appending all faults to `faults`. `check_url` returns the fault of a URL."""
    change = ConfigChange()
    for name, value in config.items():
        if len(faults) >= FAULTS_MAX:
            break
        if (key := CONFIG_KEYS.get(name)) is None:
            faults.append(fault(f"Invalid config attribute: {shown(name)}"))
            continue
        wrong = key.read(change, value)
        if name == "url" and wrong is None:
            wrong = check_url(value)
        if wrong is not None:
            faults.append(fault(wrong, field=name))
    if change.previous_secret_expires_in_s is not None and change.secret is UNSET:
        faults.append(fault(say("{} requires a new secret", _ROTATION), field=_ROTATION))
    return change


def is_mask(text: str) -> bool:
    """Return whether the text represents a stored secret, because it consists of mask characters."""
    characters = "".join(unicodedata.normalize("NFKC", text).split())  # full-width asterisks too
    return bool(characters) and not characters.strip(_MASKING)


def mask_faults(change: ConfigChange, *, secret: bytes | None = None, password: bytes | None = None) -> list[Fault]:
    """Return a fault for each masked `secret` or `password` that is not stored, which would leave payloads unsigned."""
    masked = {
        "secret": change.secret_masked and secret is None,
        "password": change.password_masked and password is None,
    }
    faults = []
    for name in (each for each, wrong in masked.items() if wrong):
        message = say(
            "{} is ********, the mask of a stored {}, but none is stored. Send the actual {} or omit it.",
            name, name, name,
        )  # fmt: skip
        faults.append(fault(message, field=name))
    return faults


def standard_key(secret: bytes) -> bytes | None:
    """Return the key of a Standard Webhooks secret, `whsec_` and base64, or None for any other secret."""
    if not secret.startswith(STANDARD_SECRET_PREFIX):
        return None
    try:
        return base64.b64decode(secret.removeprefix(STANDARD_SECRET_PREFIX), validate=True) or None
    except binascii.Error:
        return None


def require_standard_secret(config: Mapping[str, str], secret: str | None) -> None:
    """Raise `Invalid` if `standard` headers lack a `whsec_` secret, because receivers would reject every delivery."""
    if config.get("header_style") == "standard" and (secret is None or standard_key(secret.encode()) is None):
        message = "secret must be whsec_ followed by a base64 key if header_style is standard"
        raise Invalid(faults=[fault(message, field="secret")])
