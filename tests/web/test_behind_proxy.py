"""The pages behind a proxy that is configured as the operator documentation recommends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness.server import Server
from tests.web.browser import Browser, forms

pytestmark = pytest.mark.one_database

_PAGE = Path(__file__).parents[2] / "docs" / "operators" / "proxy.md"


def _as_documented(scheme: str, address: str) -> dict[str, str]:
    """Return the headers that nginx adds to a request for this address, according to the documented block."""
    values = {
        "$http_host": address,
        "$host": address.partition(":")[0],  # nginx omits the port
        "$scheme": scheme,
        "$remote_addr": "198.51.100.7",
    }
    [block] = re.findall(r"```nginx\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    found = dict(re.findall(r"proxy_set_header (\S+) (\S+);", block))
    assert set(found) == {"Host", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-For"}
    return {name: values[each] for name, each in found.items()}


@pytest.mark.parametrize(
    ("scheme", "address"),
    [("https", "work.example.com"), ("https", "work.example.com:8443"), ("http", "work.example.com:8080")],
)
def test_forms_work_behind_the_documented_proxy(server: Server, scheme: str, address: str) -> None:
    """On any port: the browser names the port in `Origin`, and the proxy's headers must match it."""
    with Browser(server, **_as_documented(scheme, address)) as browser:
        page = browser.get("/login")
        cookie = page.headers["set-cookie"].partition(";")[0]  # httpx does not return cookies marked as secure here
        fields = {**forms(page)[0].fields, "login": "nobody", "password": "not the right one"}
        own: dict[str, Any] = {"Cookie": cookie, "Origin": f"{scheme}://{address}"}
        assert browser.client.post("/login", data=fields, headers=own).status_code == 422
        other = {**own, "Origin": f"{scheme}://{address.partition(':')[0]}:9"}
        assert browser.client.post("/login", data=fields, headers=other).status_code == 403
        assert browser.client.get("/metrics").status_code == 403  # a forwarded request does not count as local
