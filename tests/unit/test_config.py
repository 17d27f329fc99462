"""Environment variables that look like settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from workhook.core.config import SettingsError, load

ORCHESTRATION = {
    "WORKHOOK_SERVICE_HOST": "10.0.0.1",
    "WORKHOOK_SERVICE_PORT": "8000",
    "WORKHOOK_SERVICE_PORT_HTTP": "8000",
    "WORKHOOK_PORT_8000_TCP": "tcp://10.0.0.1:8000",
    "WORKHOOK_PORT_8000_TCP_ADDR": "10.0.0.1",
    "WORKHOOK_PORT_8000_TCP_PORT": "8000",
    "WORKHOOK_PORT_8000_TCP_PROTO": "tcp",
    "WORKHOOK_WORKER_SERVICE_HOST": "10.0.0.2",
    "WORKHOOK_WORKER_PORT": "tcp://10.0.0.2:9100",
    "WORKHOOK_WORKER_PORT_9100_TCP": "tcp://10.0.0.2:9100",
    "WORKHOOK_ENV_PATH": "/bin",
}


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("WORKHOOK_PROT", "WORKHOOK_PORT"),
        ("WORKHOOK_BASEURL", "WORKHOOK_BASE_URL"),
        ("WORKHOOK_DATABASE_URI", "WORKHOOK_DATABASE_URL"),
        ("WORKHOOK_PORT_FILE", "WORKHOOK_PORT"),  # only secrets can be read from files
    ],
)
def test_an_unknown_variable_is_refused_with_the_closest_setting(variable: str, meant: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({}, {variable: "1", "PATH": "/bin"})
    [fault] = refused.value.faults
    assert fault == f"{variable}: unknown variable; did you mean {meant}?"


def test_a_secret_file_must_not_be_empty(tmp_path: Path) -> None:
    """Otherwise a server would start with a key of its own if a secret is not mounted yet."""
    file = tmp_path / "key"
    file.write_text("\n")
    for name in ("SECRET_KEY", "METRICS_TOKEN", "DELIVERY_PROXY"):
        with pytest.raises(SettingsError, match=f"WORKHOOK_{name}_FILE: {file} is empty"):
            load({}, {f"WORKHOOK_{name}_FILE": str(file)})


def test_a_missing_secret_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "url"
    with pytest.raises(SettingsError) as refused:
        load({}, {"WORKHOOK_DATABASE_URL_FILE": str(file)})
    assert refused.value.faults == [f"WORKHOOK_DATABASE_URL_FILE: {file}: No such file or directory"]


def test_every_secret_key_has_at_least_16_characters() -> None:
    for value in ("k" * 15, f"{'k' * 44} short", "a pass phrase"):
        with pytest.raises(SettingsError, match="the value is invalid; expected a key of 16 or more") as refused:
            load({}, {"WORKHOOK_SECRET_KEY": value})
        assert value not in str(refused.value)
    for value in ("k" * 16, f"{'k' * 44} {'o' * 44}"):
        assert load({}, {"WORKHOOK_SECRET_KEY": value}).secret_key == value


def test_variables_of_container_orchestration_are_ignored() -> None:
    assert load({}, {**ORCHESTRATION, "WORKHOOK_PORT": "tcp://10.0.0.1:8000"}).port == 8000
    assert load({}, {**ORCHESTRATION, "WORKHOOK_PORT": "9000", "WORKHOOK_PUSHER": "octo"}).port == 9000


def test_a_flag_for_the_database_replaces_the_session_url_of_the_variables(tmp_path: Path) -> None:
    """Otherwise `workhook restore --database-url` would use the server's own database."""
    pooler, here, elsewhere = "postgresql://pooler/workhook", "postgresql://db/workhook", "postgresql://db/restored"
    variables = {"WORKHOOK_DATABASE_URL": pooler, "WORKHOOK_DATABASE_SESSION_URL": here}
    assert load({"data": str(tmp_path)}, variables).migration_url == here
    assert load({"data": str(tmp_path), "database_url": elsewhere}, variables).migration_url == elsewhere
    (tmp_path / "workhook.toml").write_text(f'database_url = "{here}"\ndatabase_session_url = "{here}"\n')
    assert load({"data": str(tmp_path), "database_url": elsewhere}, {}).migration_url == elsewhere
    both = {"data": str(tmp_path), "database_url": elsewhere, "database_session_url": here}
    assert load(both, variables).migration_url == here
