"""Settings: one frozen object, read once from flags, the environment and `workhook.toml`, and validated as a whole.

Each setting is a flag (`flag_of`), an environment variable `WORKHOOK_NAME` and a key `name` in the file. Secrets can
also be read from a file named by `WORKHOOK_NAME_FILE`. Flags override the environment, which overrides the file.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from workhook.core.mail_address import mail_from, smtp_url

PREFIX = "WORKHOOK_"

N = TypeVar("N", int, float)

# Variables that Kubernetes and Docker set for a service or a container named `workhook…`.
_ORCHESTRATION = re.compile(
    r"WORKHOOK_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?|ENV_\w+)"
)
_SOCKET = re.compile(r"(tcp|udp|sctp)://")
# Set for the Git hook (`git_push/hook.py`) to identify who pushes.
_OF_THE_GIT_HOOK = ("WORKHOOK_PUSHER", "WORKHOOK_PUSHER_EMAIL")
_FLAGS = {
    "delivery_allow_networks": "--allow-network",  # repeatable, so the flag is singular
    "worker_listen": "--listen",  # only `workhook worker` has it
}


def flag_of(name: str) -> str:
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


class SettingsError(Exception):
    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def _number(kind: type[N], low: N, high: N, wanted: str) -> Callable[[Any], N]:
    def parse(value: Any) -> N:
        if isinstance(value, bool) or (isinstance(value, float) and kind is int):
            raise TypeError
        number = kind(value)
        if not low <= number <= high:
            raise ValueError
        return number

    parse.__doc__ = f"{wanted} from {low} to {high}"
    return parse


def _integer_parser(low: int, high: int, unit: str = "") -> Callable[[Any], int]:
    return _number(int, low, high, f"a whole number{f' of {unit}' if unit else ''}")


def _seconds(low: float, high: float) -> Callable[[Any], float]:
    return _number(float, low, high, "a number of seconds")


def _text(value: Any) -> str:
    """text in quotes"""
    if not isinstance(value, str):  # a number or a list in the file
        raise TypeError
    return value


def _path(value: Any) -> Path:
    """a path in quotes, such as "/var/lib/workhook\""""
    if value == "":
        raise ValueError
    return Path(value)


def _networks(value: Any) -> tuple[str, ...]:
    """networks such as 10.0.0.0/8, separated by commas"""
    parts = (value if isinstance(value, str) else ",".join(value)).split(",")
    return tuple(str(ipaddress.ip_network(part.strip(), strict=False)) for part in parts if part.strip())


def _http_url(value: Any) -> str:
    """an http or https URL without a path, such as https://work.example.com"""
    parts = urlsplit(_text(value))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError
    return str(value).rstrip("/")


def _issuer(value: Any) -> str:
    """an https URL without a query, such as https://id.example.com; http only on 127.0.0.1 or localhost"""
    parts = urlsplit(_text(value))
    local = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if parts.scheme not in (("https", "http") if local else ("https",)) or not parts.hostname or "@" in parts.netloc:
        raise ValueError
    if parts.query or parts.fragment:
        raise ValueError
    return str(value)


def _database_url(value: Any) -> str:
    """sqlite:///FILE or postgresql://USER@HOST/NAME"""
    if not _text(value).startswith(("sqlite:///", "postgresql://", "postgres://", "postgresql+asyncpg://")):
        raise ValueError
    if "," not in (parts := urlsplit(str(value))).netloc:  # libpq's form with several hosts
        _ = parts.port  # raises for an invalid port
    return str(value)


def postgresql_url(value: Any) -> str:
    """postgresql://USER@HOST/NAME"""
    if _text(value).startswith("sqlite:"):
        raise ValueError
    return _database_url(value)


def _files_url(value: Any) -> str:
    """s3://BUCKET or s3://BUCKET/PREFIX"""
    parts = urlsplit(_text(value))
    if parts.scheme != "s3" or not parts.netloc or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError
    return str(value).rstrip("/")


def _prefix(value: Any) -> str:
    """letters, digits, and hyphens, such as X-Service"""
    text = _text(value).strip("-")
    if not text or not text.replace("-", "").isalnum() or not text.isascii():
        raise ValueError
    return text


def _token(value: Any) -> str:
    """16 to 200 letters, digits, and symbols without spaces, such as the output of `openssl rand -hex 24`"""
    text = _text(value)
    if not 16 <= len(text) <= 200 or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError
    return text


def _secret_key(value: Any) -> str:
    """a key of 16 or more characters, such as the output of `openssl rand -base64 32`"""
    text = _text(value)
    if any(len(each) < 16 for each in text.split()):
        raise ValueError
    return text


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, with IPv6 addresses in brackets. Raises `ValueError`."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.port is None or parts.netloc != text or "@" in text:
        raise ValueError(text)
    return parts.hostname, parts.port


def _address(value: Any) -> str:
    """HOST:PORT, such as 127.0.0.1:9100 or [::1]:9100"""
    split_address(_text(value))
    return str(value)


def _truth(value: Any) -> bool:
    """true or false"""
    if isinstance(value, bool):
        return value
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    return known[str(value).strip().lower()]


def _one_of(*names: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    parse.__doc__ = f"one of {', '.join(names)}"
    return parse


def _setting(default: Any, parse: Callable[[Any], Any], help_text: str, *, secret: bool = False) -> Any:
    # Tracebacks and debug lines must not reveal secrets or the password in a URL.
    return field(default=default, repr=not secret, metadata={"parse": parse, "help": help_text, "secret": secret})


_secret = partial(_setting, None, secret=True)


@dataclass(frozen=True)
class Settings:
    """The settings of a process. The environment is not read again after this object is created."""

    data: Path = _setting(Path("data"), _path, "Folder for the database, the files, the key, and the server's address.")
    database_url: str | None = _secret(_database_url, "URL of the database. Default: SQLite in the data folder.")
    database_session_url: str | None = _secret(
        postgresql_url, "Direct URL of PostgreSQL, if database_url points to a pooler in transaction mode."
    )
    database_connections: int = _setting(
        6,
        _integer_parser(2, 1000),
        "Maximum number of connections to PostgreSQL per process, including the one for notifications.",
    )
    files_url: str | None = _setting(
        None,
        _files_url,
        "Bucket for files, with its address and credentials in AWS_… variables. Default: a folder in the data folder.",
    )
    upload_max_mb: int = _setting(100, _integer_parser(1, 100_000, "MiB"), "Maximum size of a file in MiB.")
    organization_max_mb: int = _setting(
        0,
        _integer_parser(0, 1_000_000_000, "MiB"),
        "Maximum size in MiB of an organization's files and stored events, including the trash; 0: no limit.",
    )
    organization_max_rows: int = _setting(
        0,
        _integer_parser(0, 1_000_000_000_000),
        "Maximum number of an organization's records (tasks, events, and so on), including the trash; 0: no limit.",
    )
    host: str = _setting("127.0.0.1", _text, "Address to listen on.")
    port: int = _setting(8000, _integer_parser(0, 65535), "Port to listen on; 0 picks a free one.")
    base_url: str | None = _setting(None, _http_url, "Public URL of the server, used in webhook payloads and links.")
    secret_key: str | None = _secret(
        _secret_key, "Key that encrypts secrets at rest. Default: the file secret.key in the data folder."
    )
    log_level: str = _setting(
        "info",
        _one_of("debug", "info", "warning", "error"),
        "Minimum log level: debug, info, warning, or error.",
    )
    log_format: str = _setting(
        "auto",
        _one_of("auto", "json", "text"),
        "Log format: text, json, or auto (text on a terminal, otherwise JSON lines).",
    )
    access_log: bool = _setting(
        False, _truth, "Log each request at level info: method, route, status, duration, and address."
    )
    drain_s: float = _setting(
        30.0, _seconds(0, 600), "Seconds after SIGTERM in which requests and deliveries in flight can finish."
    )
    drain_delay_s: float = _setting(
        0.0, _seconds(0, 600), "Seconds after SIGTERM during which the server works normally but /readyz returns 503."
    )
    concurrency: int = _setting(
        256, _integer_parser(1, 10_000), "Maximum number of deliveries in flight in this process."
    )
    oidc_issuer: str | None = _setting(
        None, _issuer, "Issuer URL of the OpenID Connect provider for sign-in, exactly as the provider states it."
    )
    oidc_client_id: str | None = _setting(None, _text, "Client ID issued by the provider.")
    oidc_client_secret: str | None = _secret(_text, "Client secret issued by the provider.")
    oidc_create_users: bool = _setting(
        False, _truth, "Create an account when a user of the provider signs in for the first time."
    )
    link_create_users: bool = _setting(
        True,
        _truth,
        "Let people create an account with an invitation link; otherwise links only work for existing accounts.",
    )
    invite_strangers: str = _setting(
        "owners",
        _one_of("nobody", "owners", "admins"),
        "Who may invite people outside their organizations by login or e-mail address: nobody, owners of "
        "organizations, or owners and admins of projects (and so everyone with a project of their own).",
    )
    smtp_url: str | None = _secret(smtp_url, "Mail server for outgoing e-mail. Default: none; no e-mail is sent.")
    mail_from: str | None = _setting(None, mail_from, "From address of outgoing e-mail, optionally with a name.")
    api_rate_limit: int = _setting(
        5000, _integer_parser(0, 10**9), "Maximum number of requests per token per hour; 0: no limit."
    )
    page_rate_limit: int = _setting(
        20_000, _integer_parser(0, 10**8), "Maximum number of page requests per user per hour in each process; five "
                                  "times as many per address. 0: no limit.",
    )  # fmt: skip
    trust_proxy: bool = _setting(
        False, _truth, "Trust X-Forwarded-Proto, -Host, and -For. Enable only behind a proxy that sets them."
    )
    metrics_token: str | None = _secret(
        _token, "Token required for /metrics. Without it, /metrics only answers requests from this machine."
    )
    header_prefix: str = _setting("X-Service", _prefix, "Prefix of delivery header names.")
    hooks_per_event: int = _setting(
        20,
        _integer_parser(0, 10**6),
        "Maximum number of webhooks per repository or organization that subscribe to the same event; 0: no limit.",
    )
    manual_deliveries_per_minute: int = _setting(
        1000, _integer_parser(0, 10**6), "Maximum number of requested pings, tests, and redeliveries per webhook per "
                                "minute; 0: no limit.",
    )  # fmt: skip
    retention_days: int = _setting(
        30, _integer_parser(1, 3650, "days"), "Number of days to keep events and deliveries."
    )
    audit_retention_days: int = _setting(
        365, _integer_parser(0, 36_500, "days"), "Number of days to keep audit log entries; 0: forever."
    )
    delivery_timeout_s: float = _setting(
        10.0, _seconds(0.1, 300), "Timeout of a delivery attempt in seconds, including the time to connect."
    )
    delivery_retries: int = _setting(8, _integer_parser(0, 50), "Number of retries after a failed attempt; 0: none.")
    delivery_retry_first_s: float = _setting(
        10.0,
        _seconds(0, 86_400),
        "Seconds before the first retry. Each further retry waits 3.7 times as long as the one before, up to 30 days.",
    )
    delivery_allow_networks: tuple[str, ...] = _setting((), _networks, "Private networks that deliveries may reach.")
    delivery_lease_s: float = _setting(
        10.0, _seconds(1, 3600), "Seconds after which other processes take over the webhooks of a dead process."
    )
    delivery_memory_mb: int = _setting(
        256, _integer_parser(1, 1_000_000, "MiB"), "Maximum memory in MiB for delivery payloads in this process."
    )
    worker_listen: str | None = _setting(
        None,
        _address,
        "Address where `workhook worker` serves /healthz, /readyz, and /metrics. Default: none. Port 0 picks a "
        "free one.",
    )
    delivery_proxy: str | None = _secret(_text, "HTTP proxy for deliveries.")

    @property
    def migration_url(self) -> str | None:
        return self.database_session_url or self.database_url

    @property
    def sqlite_path(self) -> Path | None:
        """Return the database file, or None on PostgreSQL."""
        if self.database_url is None:
            return self.data / "workhook.db"
        if self.database_url.startswith("sqlite:///"):
            return Path(self.database_url.removeprefix("sqlite:///"))
        return None


def load(flags: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """Read and validate all settings. Raises `SettingsError` that lists each fault with its remedy."""
    environ = os.environ if environ is None else environ
    faults: list[str] = []
    raw_values: dict[str, tuple[str, Any]] = {}
    known = {each.name: each for each in fields(Settings)}
    data = Path(flags.get("data") or environ.get("WORKHOOK_DATA") or Settings.data)
    for source in (_from_file(data / "workhook.toml", faults), _from_environment(environ, known, faults)):
        raw_values.update(source)
    if flags.get("database_url") is not None and "database_session_url" not in flags:
        # The session URL of the variables or the file leads to their database, and the command cannot name another.
        raw_values.pop("database_session_url", None)
    raw_values.update({name: (flag_of(name), value) for name, value in flags.items() if value is not None})
    values: dict[str, Any] = {}
    for name, (source_name, raw) in raw_values.items():
        if name not in known:
            faults.append(f"{source_name}: unknown setting{_meant(name, known)}")
            continue
        try:
            values[name] = known[name].metadata["parse"](raw)
        except (ValueError, TypeError, KeyError):
            wanted = expected_value(known[name].metadata["parse"])
            shown = "the value" if known[name].metadata["secret"] else _as_text(raw)
            faults.append(f"{source_name}: {shown} is invalid; expected {wanted}")
    faults += _apart(values, raw_values)
    if faults:
        raise SettingsError(faults)
    return Settings(**values)


def expected_value(parse: Callable[[Any], Any]) -> str:
    """Return the description of the values that a setting's parser accepts, such as `a whole number from 0 to 50`."""
    return (parse.__doc__ or "").strip()


def _apart(values: Mapping[str, Any], given: Container[str]) -> list[str]:
    """Return a fault for each valid setting that is given without another one it requires."""
    needed = {
        "database_session_url": "database_url",
        "oidc_issuer": "oidc_client_id",
        "oidc_client_id": "oidc_issuer",
        "oidc_client_secret": "oidc_issuer",
        "smtp_url": "mail_from",
        "mail_from": "smtp_url",
    }
    return [f"{name}: requires {other}" for name, other in needed.items() if name in values and other not in given]


def _as_text(raw: object) -> str:
    if isinstance(raw, (list, tuple)):
        return f"[{', '.join(map(_as_text, raw))}]"
    if isinstance(raw, bool):
        return str(raw).lower()
    return repr(raw) if isinstance(raw, (str, dict)) else str(raw)


def _meant(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _from_environment(
    environ: Mapping[str, str], known: Mapping[str, Any], faults: list[str]
) -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    faults += unknown_variables(environ)
    for name, each in known.items():
        variable = f"{PREFIX}{name.upper()}"
        if environ.get(variable) and not _is_of_orchestration(variable, environ[variable]):
            found[name] = (variable, environ[variable])
        elif each.metadata["secret"] and environ.get(f"{variable}_FILE"):
            try:
                secret = Path(environ[f"{variable}_FILE"]).read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not text"
                faults.append(f"{variable}_FILE: {environ[f'{variable}_FILE']}: {reason}")
                continue
            if not secret:
                faults.append(f"{variable}_FILE: {environ[f'{variable}_FILE']} is empty")
            found[name] = (f"{variable}_FILE", secret)
    return found


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a fault for each unknown variable that starts with `PREFIX`, suggesting the closest known name."""
    served = {*_OF_THE_GIT_HOOK}
    for each in fields(Settings):
        variable = f"{PREFIX}{each.name.upper()}"
        served |= {variable, f"{variable}_FILE"} if each.metadata["secret"] else {variable}
    unknown = sorted(
        name
        for name, value in environ.items()
        if name.startswith(PREFIX) and name not in served and not _is_of_orchestration(name, value)
    )
    return [f"{variable}: unknown variable{_meant(variable, served)}" for variable in unknown]


def _is_of_orchestration(name: str, value: str) -> bool:
    """Return whether Kubernetes or Docker set the variable for a service or container named `workhook…`."""
    return _ORCHESTRATION.fullmatch(name) is not None or _SOCKET.match(value) is not None


def _from_file(path: Path, faults: list[str]) -> dict[str, tuple[str, Any]]:
    if not path.exists():
        return {}
    try:
        parsed = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        faults.append(f"{path}: {error}")
        return {}
    return {name.replace("-", "_"): (f"{path}: {name}", value) for name, value in parsed.items()}
