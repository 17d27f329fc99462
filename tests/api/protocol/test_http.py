"""HTTP in both APIs: methods, paths, links, conditional requests, bodies, versions and rate limits."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.api.wire import Api, Place, envelope, invalid, new_url, refused
from tests.harness.server import Server
from tests.harness.world import add_user

pytestmark = pytest.mark.one_database

REQUEST_ID = r"[0-9a-f]{32}"


def strings(value: object) -> Iterator[str]:
    """Yield every string in a body."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


# --- paths and methods --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/nope", "/repos", "/repos/a", "/orgs", "/api", "/api/v3/nope", "/api/v10/projects"])
def test_an_unknown_path_of_the_webhook_api_is_not_found(api: Api, path: str) -> None:
    refused(api.get(path), 404, "Not Found")
    refused(api.post(path, content=b"{"), 404, "Not Found")


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/", "/api/v1/nope", "/api/v1/projects/prj_nope"])
def test_an_unknown_path_of_the_work_api_is_not_found(api: Api, path: str) -> None:
    assert envelope(api.get(path), 404, "not_found")["message"] == "Not Found"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/repos/a/b/hooks", "GET, HEAD, OPTIONS, POST"),
        ("/api/v3/repos/a/b/hooks", "GET, HEAD, OPTIONS, POST"),
        ("/repos/a/b/hooks/1", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("/orgs/a/hooks/1/config", "GET, HEAD, OPTIONS, PATCH"),
        ("/orgs/a/hooks/1/pings", "OPTIONS, POST"),
        ("/orgs/a/hooks/1/deliveries/1", "GET, HEAD, OPTIONS"),
        ("/orgs/a/hooks/1/deliveries/redeliver", "OPTIONS, POST"),
        ("/user", "GET, HEAD, OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
        ("/healthz", "GET, HEAD, OPTIONS"),
    ],
)
def test_unsupported_methods_of_the_webhook_api_are_refused(api: Api, path: str, methods: str) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - set(methods.split(", ")):
        response = api.request(method, path)
        refused(response, 405, f"This path accepts {methods}.")
        assert response.headers["allow"] == methods
    response = api.options(path)
    assert (response.status_code, response.content, response.headers["allow"]) == (204, b"", methods)
    assert re.fullmatch(REQUEST_ID, response.headers["x-request-id"])


def test_unsupported_methods_of_the_work_api_are_refused(api: Api) -> None:
    for path, methods in (
        ("/api/v1/projects", "GET, HEAD, OPTIONS, POST"),
        ("/api/v1/projects/prj_1", "DELETE, GET, HEAD, OPTIONS, PATCH"),
    ):
        response = api.request("PUT", path)
        assert envelope(response, 405, "method_not_allowed")["message"] == f"This path accepts {methods}."
        assert response.headers["allow"] == methods
        assert api.options(path).headers["allow"] == methods


def test_options_of_an_unknown_path_is_not_found(api: Api) -> None:
    refused(api.options("/nope"), 404, "Not Found")


def test_a_trailing_slash_is_ignored(api: Api, place: Place) -> None:
    hook = api.hook(place)
    assert api.read(f"{place.hooks}/") == [hook]
    assert api.read(f"{hook['url']}/") == hook
    assert api.post(f"{place.hooks}/", json={"name": "web", "config": {"url": new_url()}}).status_code == 201
    assert api.get("/api/v1/projects/").status_code == 200


def test_head_equals_get_without_a_body(api: Api, place: Place) -> None:
    hook = api.hook(place)
    for path in (place.hooks, hook["url"], "/user", "/zen", "/api/v1/projects", "/openapi.json"):
        get, head = api.get(path), api.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == get.headers["content-type"]
        assert head.headers.get("etag") == get.headers.get("etag")
        if path != "/zen":
            assert head.headers["content-length"] == get.headers["content-length"]
    assert api.head("/nope").status_code == 404


# --- conditional requests -----------------------------------------------------------------------------------------


def test_a_matching_etag_returns_304(api: Api, place: Place) -> None:
    hook = api.hook(place)
    for path in (place.hooks, hook["url"], f"{hook['url']}/config", hook["deliveries_url"], "/user", "/webhook-events"):
        first = api.get(path)
        tag = first.headers["etag"]
        assert re.fullmatch(r'W/"[0-9a-f]{64}"', tag)
        strong = tag.removeprefix("W/")
        for condition in (tag, strong, f'"x", {tag}', "*", f'"x" , {tag}'):
            again = api.get(path, headers={"If-None-Match": condition})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == tag
            assert "content-type" not in again.headers
            assert int(again.headers["x-ratelimit-remaining"]) > 0
        for condition in ('"x"', strong.strip('"'), ""):
            assert api.get(path, headers={"If-None-Match": condition}).status_code == 200
        assert api.head(path, headers={"If-None-Match": tag}).status_code == 304


def test_an_outdated_etag_returns_the_new_body(api: Api, place: Place) -> None:
    hook = api.hook(place)
    tag = api.get(hook["url"]).headers["etag"]
    assert api.create(place, active=False).headers["etag"].startswith('"')
    assert api.get(hook["url"], headers={"If-None-Match": tag}).status_code == 304
    api.patch(hook["url"], json={"events": ["fork"]})
    assert api.get(hook["url"], headers={"If-None-Match": tag}).status_code == 200


def test_if_match_refuses_outdated_changes(api: Api) -> None:
    project = api.read("/api/v1/projects")["projects"][0]
    path = f"/api/v1/projects/{project['id']}"
    tag = api.get(path).headers["etag"]
    stale = {"If-Match": '"stale"'}
    envelope(api.patch(path, json={"title": "x"}, headers=stale), 412, "precondition_failed")
    envelope(api.delete(path, headers=stale), 412, "precondition_failed")
    assert api.patch(path, json={"title": "x"}, headers={"If-Match": tag}).status_code == 200
    envelope(api.patch(path, json={"title": "y"}, headers={"If-Match": tag}), 412, "precondition_failed")


# --- hosts and proxies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/api/v3"])
@pytest.mark.parametrize("host", [None, "work.example.com", "work.example.com:8443", "127.1.2.3:1", "[::1]:80"])
def test_every_link_starts_with_the_base_url_of_the_request(
    api: Api, place: Place, server: Server, host: str | None, prefix: str
) -> None:
    base = f"http://{host}{prefix}" if host else f"{server.url}{prefix}"
    headers = {"Host": host} if host else {}
    created = api.post(
        f"{prefix}{place.hooks}", json={"name": "web", "config": {"url": "ftp://x"}, "active": False}, headers=headers
    )
    assert created.json()["documentation_url"].startswith(
        f"{base.removesuffix('/api/v3')}/docs#{place.kind}_hooks_create"
    )
    body = {"name": "web", "config": {"url": "urn:x"}, "active": False}
    for number in range(2):
        body["config"] = {"url": f"http://127.0.0.1:9/{number}"}
        created = api.post(f"{prefix}{place.hooks}", json=body, headers=headers)
        assert created.headers["location"] == created.json()["url"]
    listed = api.get(f"{prefix}{place.hooks}?per_page=1", headers=headers)
    answers = [created.json(), *listed.json(), api.get(f"{prefix}{place.path}", headers=headers).json()]
    links = [each for each in strings(answers) if each.startswith("http") and ":9/" not in each]
    assert len(links) > 8
    web = base.removesuffix("/api/v3")
    assert all(
        each.startswith(
            (
                *(f"{base}/{kind}/" for kind in ("repos", "orgs", "users")),
                *(f"{web}/{page}" for page in (place.world.organization, "static/")),
            )
        )
        for each in links
    )
    assert all(each.startswith(base) for each in re.findall("<([^>]+)>", listed.headers["link"]))


@pytest.mark.parametrize("host", ["a b", "a/b", "a\\b", "user@host", "a:b:c", "<script>", "host:99999999"])
def test_an_invalid_host_header_is_refused(api: Api, host: str) -> None:
    response = api.get("/", headers={"Host": host})
    assert host not in response.text.replace("\\\\", "\\")
    assert (response.status_code, response.json()) == (
        400,
        {
            "message": "The Host header is not a valid host name or address (RFC 9112, 3.2).",
            "documentation_url": "/docs",
            "status": "400",
        },
    )


FORWARDED = {
    "X-Forwarded-Proto": "https", "X-Forwarded-Host": "public.example.com", "X-Forwarded-For": "203.0.113.9",
    "Forwarded": "proto=https;host=other.example.com",
}  # fmt: skip


FORWARDED_FOR = "X-Forwarded-For"


def test_proxy_headers_are_ignored_by_default(api: Api, server: Server) -> None:
    assert api.get("/", headers=FORWARDED).json()["documentation_url"] == f"{server.url}/docs"


def test_headers_of_a_trusted_proxy_are_used(new_server: Callable[..., Server]) -> None:
    server = new_server(trust_proxy=True, api_rate_limit=3)
    world = server.world()
    with server.client(world.token) as client:
        root = client.get("/api/v3", headers=FORWARDED).json()
        assert root["current_user_url"] == "https://public.example.com/api/v3/user"
        assert client.get("/").json()["documentation_url"] == f"{server.url}/docs"
        bad = {"X-Forwarded-Proto": "javascript", "X-Forwarded-Host": "a b"}
        assert client.get("/", headers=bad).json()["documentation_url"] == f"{server.url}/docs"
    with server.client(None) as client:  # callers without a token are distinguished by the proxy's last entry
        for address in ("203.0.113.1", "203.0.113.2"):
            headers = {"X-Forwarded-For": f"198.51.100.7, {address}"}
            codes = [client.get("/zen", headers=headers).status_code for _ in range(4)]
            assert codes == [200, 200, 200, 403]


def test_only_the_address_added_by_the_proxy_counts(new_server: Callable[..., Server]) -> None:
    """Some proxies extend a received header, others add another one after it (equivalent by RFC 9110, 5.3)."""
    server = new_server(trust_proxy=True, api_rate_limit=3)

    def ask(*sent: tuple[str, str]) -> httpx.Response:
        with server.client(None) as client:
            return client.get("/user", headers=list(sent))

    for turn in range(3):  # one caller, whatever address the client claims
        answer = ask((FORWARDED_FOR, f"198.51.100.{turn}"), (FORWARDED_FOR, "203.0.113.1"))
        assert (answer.status_code, answer.headers["x-ratelimit-used"]) == (401, str(turn + 1))
    assert ask((FORWARDED_FOR, "198.51.100.9"), (FORWARDED_FOR, "203.0.113.1")).status_code == 403
    for turn in range(3):  # some proxies add the port
        answer = ask((FORWARDED_FOR, f"203.0.113.2:{4000 + turn}"))
        assert answer.headers["x-ratelimit-used"] == str(turn + 1)
        answer = ask((FORWARDED_FOR, f"[2001:db8::{turn + 1}]:{4000 + turn}"))
        assert answer.headers["x-ratelimit-used"] == str(turn + 1)


def test_every_response_has_its_own_request_id(api: Api) -> None:
    ids = [api.get(path).headers["x-request-id"] for path in ("/user", "/nope", "/healthz", "/orgs/x", "/api/v1/x")]
    assert all(re.fullmatch(REQUEST_ID, each) for each in ids)
    assert len(set(ids)) == len(ids)
    own = api.get("/user", headers={"X-Request-Id": "mine\tx"}).headers["x-request-id"]
    assert re.fullmatch(REQUEST_ID, own)


def test_browsers_must_not_sniff_content_types(api: Api) -> None:
    for path in ("/user", "/nope", "/zen", "/docs", "/api/v1/projects"):
        assert api.get(path).headers["x-content-type-options"] == "nosniff"


# --- versions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["X-Service-Api-Version", "X-GitHub-Api-Version"])
def test_unsupported_api_versions_are_refused(api: Api, header: str) -> None:
    for version in ("2022-11-28", "2026-03-10"):
        assert api.get("/user", headers={header: version}).status_code == 200
    for version in ("1999-01-01", "", "latest", "2022-11-28, 2026-03-10"):
        response = api.get("/user", headers={header: version})
        assert response.status_code == 400
        assert response.json() == {
            "message": "Bad Request",
            "errors": f'The version you specified in the "{header}" request header, "{version}", is not a supported '
            'version. The following versions are currently supported: "2026-03-10" (most recent) and "2022-11-28".',
            "documentation_url": response.json()["documentation_url"],
            "status": "400",
        }
        assert int(response.headers["x-ratelimit-limit"]) > 0, "it is counted as any other"
    asked = {header: "1999-01-01", "Authorization": "Bearer whp_nobodys"}
    # Checked before the version, so that the audit log records it.
    refused(api.get("/user", headers=asked), 401, "Bad credentials")
    # The work API and the system endpoints have no versions.
    assert api.get("/api/v1/projects", headers={header: "1999-01-01"}).status_code == 200
    assert api.get("/healthz", headers={header: "1999-01-01"}).status_code == 200


# --- the rate limit -----------------------------------------------------------------------------------------------


def test_requests_beyond_the_rate_limit_are_refused(new_server: Callable[..., Server]) -> None:
    server = new_server(api_rate_limit=4)
    world, other = server.world(), server.world()
    exceeded = "API rate limit exceeded. Wait until the time in X-RateLimit-Reset."
    with server.client(world.token) as client, server.client(other.token) as second, server.client(None) as nobody:
        left = [client.get("/user").headers["x-ratelimit-remaining"] for _ in range(3)]
        assert left == ["3", "2", "1"]
        assert client.get(f"{other.repo_path}/hooks").status_code == 404
        refusal = client.get("/user")
        refused(refusal, 403, exceeded)
        assert refusal.headers["x-ratelimit-remaining"] == "0"
        assert refusal.headers["x-ratelimit-used"] == "4"
        assert 0 < int(refusal.headers["retry-after"]) <= 3600
        envelope(area_a := client.get("/api/v1/projects"), 429, "rate_limited")
        assert int(area_a.headers["retry-after"]) > 0
        assert client.get("/rate_limit").json()["rate"]["remaining"] == 0
        assert client.get("/healthz").status_code == 200
        assert second.get("/user").headers["x-ratelimit-remaining"] == "3"  # each token has its own limit
        assert [nobody.get("/zen").status_code for _ in range(5)] == [200, 200, 200, 200, 403]
        assert second.get("/zen").status_code == 200


def test_a_refusal_of_the_last_request_is_not_reported_as_rate_limiting(new_server: Callable[..., Server]) -> None:
    server = new_server(api_rate_limit=1)
    world = server.world()
    token = server.run(lambda services: add_user(services, world, role="read"))
    with server.client(token) as client:
        response = client.get(f"{world.repo_path}/hooks")
        refused(response, 403, "Must have admin rights to Repository.")
        assert "x-ratelimit-remaining" not in response.headers


# --- invalid HTTP -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBad Header\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /user HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ],
    ids=repr,
)
def test_invalid_bytes_do_not_cause_a_server_error(server: Server, api: Api, data: bytes) -> None:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    assert not answer or re.match(rb"HTTP/1\.1 (2\d\d|4\d\d) ", answer)
    assert api.get("/user").status_code == 200
    assert "request_failed" not in server.log()


def test_paths_cannot_escape_their_root(api: Api, place: Place) -> None:
    for path in ("/../../etc/passwd", "/docs/../openapi.json/x", "/%2e%2e/%2e%2e/etc/passwd", "/repos/../user"):
        assert api.get(path).status_code in (200, 404)
        assert "root:" not in api.get(path).text


def test_headers_cannot_be_split(api: Api, place: Place) -> None:
    for _ in range(2):
        api.hook(place)
    response = api.get(f"{place.hooks}?per_page=1&x=%0d%0aX-Evil:%201")
    assert "x-evil" not in response.headers
    assert "%0D%0AX-Evil" in response.headers["link"]


def test_unknown_query_parameters_are_ignored(api: Api, place: Place) -> None:
    hook = api.hook(place)
    assert api.read(f"{place.hooks}?foo=bar&per_page=5&per_page=1") == [hook]
    fault = {"field": "per_page", "code": "invalid", "message": "per_page must be a whole number of at least 1"}
    invalid(api.get(f"{place.hooks}?per_page=5&per_page=x"), fault)  # the last value counts
