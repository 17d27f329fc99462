"""Access to /metrics: with the token from `metrics_token`, or from the same machine if none is set."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.harness.server import Server
from workhook.core.config import Settings, SettingsError, load
from workhook.core.errors import Forbidden, Unauthenticated
from workhook.http.system import check_metrics_access

pytestmark = pytest.mark.one_database

TOKEN = "a-token-of-24-characters"  # an example, not a secret
CLIENT = "203.0.113.9"

PROXIED = [
    {"X-Forwarded-For": CLIENT},
    {"X-Forwarded-For": "127.0.0.1"},  # written by a client, or a proxy's own health check
    {"X-Real-IP": CLIENT},
    {"Forwarded": f"for={CLIENT}"},
    {"Via": "1.1 proxy"},
    {"Host": "work.example.com"},  # a proxy that adds no headers, or a web page that uses this host name
    {"Host": "127.0.0.1.example.com"},
]


@pytest.mark.parametrize("trust_proxy", [False, True])
def test_only_this_machine_reads_metrics_by_default(new_server: Callable[..., Server], trust_proxy: bool) -> None:
    server = new_server(trust_proxy=trust_proxy)
    port = server.url.rpartition(":")[2]
    with server.client(None) as client:
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "[::1]", "127.0.0.1"):
            answer = client.get("/metrics", headers={"Host": host})
            assert (answer.status_code, "workhook_requests_total" in answer.text) == (200, True), host
        for headers in PROXIED:
            answer = client.get("/metrics", headers=headers)
            assert (answer.status_code, "workhook_requests_total" in answer.text) == (403, False), headers
            assert "metrics_token" in answer.json()["message"]
    owner = server.world().token
    with server.client(owner) as client:  # users' tokens are not accepted
        assert client.get("/metrics", headers=PROXIED[0]).status_code == 403


def test_the_token_allows_access_from_anywhere(new_server: Callable[..., Server]) -> None:
    server = new_server(metrics_token=TOKEN)
    with server.client(None) as client:
        for headers in ({}, *PROXIED):  # a proxy on this machine may look like a local client
            refused = client.get("/metrics", headers=headers)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert TOKEN not in refused.text
            for wrong in (f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer", "Bearer \u00e9".encode()):
                given: Mapping[str, str | bytes] = {**headers, "Authorization": wrong}
                assert client.get("/metrics", headers=given).status_code == 401  # type: ignore[arg-type]  # httpx accepts both
            right = client.get("/metrics", headers={**headers, "Authorization": f"Bearer {TOKEN}"})
            assert (right.status_code, "workhook_requests_total" in right.text) == (200, True)
    assert TOKEN not in server.log()


@pytest.mark.parametrize(
    ("peer", "open_to_it"),
    [
        ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False), ("::ffff:10.0.0.1", False), ("192.168.1.2", False), ("", False), (None, False),
    ],
)  # fmt: skip
def test_only_loopback_peers_are_this_machine(peer: str | None, open_to_it: bool) -> None:
    headers = {"host": "localhost:8000"}
    if open_to_it:
        check_metrics_access(Settings(), peer, headers)
    else:
        with pytest.raises(Forbidden):
            check_metrics_access(Settings(), peer, headers)
    with pytest.raises(Unauthenticated):
        check_metrics_access(Settings(metrics_token=TOKEN), peer, headers)
    check_metrics_access(Settings(metrics_token=TOKEN), peer, {**headers, "authorization": f"bearer {TOKEN}"})


@pytest.mark.parametrize("bad", ["short", "x" * 201, "a token of some words", "t\u00f6ken-that-is-long-enough"])
def test_an_invalid_token_is_refused_at_startup(bad: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({}, {"WORKHOOK_METRICS_TOKEN": bad})
    assert "WORKHOOK_METRICS_TOKEN" in str(refused.value)
    assert bad not in str(refused.value)
