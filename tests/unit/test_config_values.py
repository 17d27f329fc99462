"""Each invalid value of a setting is reported with the setting, the value and the accepted values."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from workhook.core.config import Settings, SettingsError, load

KINDS = {
    "data": ("5", '5 is invalid; expected a path in quotes, such as "/var/lib/workhook"'),
    "database_url": ("true", "the value is invalid; expected sqlite:///FILE or postgresql://USER@HOST/NAME"),
    "database_session_url": ("[1]", "the value is invalid; expected postgresql://USER@HOST/NAME"),
    "files_url": ("5", "5 is invalid; expected s3://BUCKET or s3://BUCKET/PREFIX"),
    "host": ("5", "5 is invalid; expected text in quotes"),
    "secret_key": (
        "5",
        "the value is invalid; "
        "expected a key of 16 or more characters, such as the output of `openssl rand -base64 32`",
    ),
    "port": ("8000.5", "8000.5 is invalid; expected a whole number from 0 to 65535"),
    "concurrency": ("true", "true is invalid; expected a whole number from 1 to 10000"),
    "retention_days": ("[30]", "[30] is invalid; expected a whole number of days from 1 to 3650"),
    "base_url": ("1979-05-27", "1979-05-27 is invalid; expected an http or https URL without a path, such as "
                 "https://work.example.com"),
    "log_level": ('"loud"', "'loud' is invalid; expected one of debug, info, warning, error"),
    "access_log": ('"perhaps"', "'perhaps' is invalid; expected true or false"),
    "drain_s": ("nan", "nan is invalid; expected a number of seconds from 0 to 600"),
    "delivery_timeout_s": ("false", "false is invalid; expected a number of seconds from 0.1 to 300"),
    "oidc_issuer": ("5", "5 is invalid; expected an https URL without a query, such as https://id.example.com; http "
                    "only on 127.0.0.1 or localhost"),
    "smtp_url": ("25", "the value is invalid; expected smtp://HOST or smtps://HOST, with percent-encoded "
                 "USER:PASSWORD@ before the host and :PORT after it if needed"),
    "mail_from": ('"nobody"', "'nobody' is invalid; expected an e-mail address, such as work@example.com or "
                  '"Acme Studio <work@example.com>"'),
    "metrics_token": ("1234567890123456", "the value is invalid; expected 16 to 200 letters, digits, and symbols "
                      "without spaces, such as the output of `openssl rand -hex 24`"),
    "header_prefix": ("true", "true is invalid; expected letters, digits, and hyphens, such as X-Service"),
    "delivery_allow_networks": ('["10.0.0.0/8", 5]', "['10.0.0.0/8', 5] is invalid; expected networks such as "
                                "10.0.0.0/8, separated by commas"),
    "worker_listen": ("9100", "9100 is invalid; expected HOST:PORT, such as 127.0.0.1:9100 or [::1]:9100"),
}  # fmt: skip


def test_every_parser_is_covered() -> None:
    parsers = {each.metadata["parse"].__doc__.partition(" from ")[0] for each in fields(Settings)}
    covered = {each.metadata["parse"].__doc__.partition(" from ")[0] for each in fields(Settings) if each.name in KINDS}
    lists = {each for each in parsers if each.startswith("one of ")}
    assert parsers - covered - lists - {"a whole number of MiB"} == set()


@pytest.mark.parametrize("name", KINDS)
def test_an_invalid_value_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    written, explanation = KINDS[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    path = Path("data") / "workhook.toml"
    path.write_text(f"{name} = {written}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        load({}, {})
    [fault] = refused.value.faults
    assert fault == f"{path}: {name}: {explanation}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "70000"), ("port", "80.5"), ("drain_s", "inf"), ("delivery_lease_s", "0"), ("access_log", "2"),
        ("log_format", "xml"), ("base_url", "work.example.com"), ("delivery_allow_networks", "10.0.0.0/99"),
        ("worker_listen", "9100"), ("header_prefix", "-"), ("files_url", "https://bucket"), ("oidc_issuer", "http://x.y"),
    ],
)  # fmt: skip
def test_a_variable_and_a_flag_are_named(name: str, value: str) -> None:
    [variable] = _faults({}, {f"WORKHOOK_{name.upper()}": value})
    assert variable.startswith(f"WORKHOOK_{name.upper()}: {value!r} is invalid; expected ")
    [flag] = _faults({name: value}, {})
    assert flag.startswith("--")
    assert f": {value!r} is invalid; expected " in flag


def test_valid_values_are_read_from_the_file(tmp_path: Path) -> None:
    text = f'data = "{tmp_path}"\nport = 9000\ndrain_s = 5\naccess_log = true\nlog_level = "debug"\nhost = "::1"\n'
    (tmp_path / "workhook.toml").write_text(text, encoding="utf-8")
    settings = load({}, {"WORKHOOK_DATA": str(tmp_path)})
    assert (settings.data, settings.port, settings.drain_s, settings.access_log) == (tmp_path, 9000, 5.0, True)
    assert (settings.log_level, settings.host) == ("debug", "::1")


def _faults(flags: dict[str, str], environ: dict[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load(flags, environ)
    return refused.value.faults


def test_an_invalid_value_is_the_only_fault() -> None:
    """The mail server's settings require each other, but the one that is given wrongly is not missing."""
    with pytest.raises(SettingsError) as refused:
        load({}, {"WORKHOOK_SMTP_URL": "smtp://ada:pass/word@mail", "WORKHOOK_MAIL_FROM": "ada@example.com"})
    [fault] = refused.value.faults
    assert "WORKHOOK_SMTP_URL" in fault
    assert "percent-encoded" in fault
