"""The headers, bodies and signatures that a receiver gets, verified by third-party code."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from workhook import __version__
from workhook.delivery.sign import Profile, SignedRequest, Signer, form_encode, redact

NOW_MS = 1_780_000_000_999
RAW_KEY = b"0123456789abcdef01234567"
WHSEC = b"whsec_" + base64.b64encode(RAW_KEY)


def signed_request(payload: bytes = b'{"a":1}', *, now_ms: int = NOW_MS, **more: object) -> SignedRequest:
    settings: dict[str, object] = {"hook_id": 7, "target_id": 42, "target_type": "repository", "content_type": "json"}
    profile = Profile(**{**settings, **more})  # type: ignore[arg-type]  # typed above
    return Signer(profile).prepare(payload, guid="0190-guid", event="push", now_ms=now_ms)


def test_a_request_has_the_specified_headers() -> None:
    assert signed_request(header_style="service").headers == {
        "User-Agent": f"Service-Hookshot/{__version__}",
        "Accept": "*/*",
        "content-type": "application/json",
        "X-Service-Delivery": "0190-guid",
        "X-Service-Event": "push",
        "X-Service-Hook-ID": "7",
        "X-Service-Hook-Installation-Target-ID": "42",
        "X-Service-Hook-Installation-Target-Type": "repository",
    }
    assert signed_request().body == b'{"a":1}'


def test_prefix_target_and_user_agent_are_configurable() -> None:
    headers = signed_request(header_prefix="X-Acme", target_type="organization", user_agent="Acme/1").headers
    assert headers["X-Acme-Hook-Installation-Target-Type"] == "organization"
    assert headers["User-Agent"] == "Acme/1"
    assert not [name for name in headers if name.startswith("X-Service")]


def test_the_signature_matches_githubs_published_example() -> None:
    """The example in GitHub's documentation on validating deliveries."""
    headers = signed_request(b"Hello, World!", secret=b"It's a Secret to Everybody").headers
    assert headers["X-Hub-Signature-256"] == "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert headers["X-Hub-Signature"] == "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59"


@pytest.mark.parametrize("secret", [None, b""])
@pytest.mark.parametrize("style", ["github", "service", "standard"])
def test_a_request_without_a_secret_is_not_signed(secret: bytes | None, style: str) -> None:
    assert not [
        name for name in signed_request(secret=secret, header_style=style).headers if "signature" in name.lower()
    ]


def test_github_headers_are_added_unless_the_style_excludes_them() -> None:
    plain, both = signed_request(secret=b"s", header_style="service").headers, signed_request(secret=b"s").headers
    added = {name.replace("X-Service-", "X-GitHub-"): value for name, value in plain.items() if "X-Service-" in name}
    assert len(added) == 5
    assert both == plain | added
    assert both == signed_request(secret=b"s", header_style="github").headers
    assert both.items() <= signed_request(secret=b"s", header_style="standard").headers.items()
    assert signed_request(header_prefix="X-GitHub").headers.keys() == added.keys() | {
        "User-Agent",
        "Accept",
        "content-type",
    }


@pytest.mark.parametrize("content_type", ["json", "form"])
@given(payload=st.binary(max_size=300), secret=st.binary(min_size=1, max_size=200))
def test_signatures_cover_the_exact_bytes_sent(content_type: str, payload: bytes, secret: bytes) -> None:
    sent = signed_request(payload, secret=secret, content_type=content_type)
    for header, digest in (("X-Hub-Signature-256", hashlib.sha256), ("X-Hub-Signature", hashlib.sha1)):
        expected = hmac.new(secret, sent.body, digest).hexdigest()
        assert sent.headers[header].partition("=")[2] == expected


@given(st.binary(max_size=300))
def test_a_form_contains_the_payload(payload: bytes) -> None:
    form = form_encode(payload).decode("ascii")
    fields = parse_qs(form, keep_blank_values=True, strict_parsing=True, encoding="latin-1")
    assert fields == {"payload": [payload.decode("latin-1")]}


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_large_form_is_encoded_like_a_small_one(more: int) -> None:
    payload = ('{"é": "%&+"}' * 20_000).encode()[: 3 * 65_536 + more]
    fields = parse_qs(form_encode(payload).decode("ascii"), strict_parsing=True, encoding="latin-1")
    assert fields == {"payload": [payload.decode("latin-1")]}
    assert form_encode(b"") == b"payload="


def test_a_form_is_serialized_as_in_the_url_standard() -> None:
    sent = signed_request('{"a": "é~*+%&="}'.encode(), content_type="form")
    assert sent.body == b"payload=%7B%22a%22%3A+%22%C3%A9%7E*%2B%25%26%3D%22%7D"
    assert sent.headers["content-type"] == "application/x-www-form-urlencoded"
    assert sent.payload_size == 17


@pytest.mark.parametrize("content_type", ["json", "form"])
def test_the_standard_webhooks_library_verifies_the_signature(content_type: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    sent = signed_request(secret=WHSEC, header_style="standard", content_type=content_type, now_ms=now_ms)
    assert sent.headers["webhook-id"] == "0190-guid"
    assert sent.headers["webhook-timestamp"] == str(now_ms // 1000)
    if content_type == "json":
        assert Webhook(WHSEC.decode()).verify(sent.body, sent.headers) == {"a": 1}
        with pytest.raises(WebhookVerificationError):
            Webhook("whsec_" + base64.b64encode(b"another").decode()).verify(sent.body, sent.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(WHSEC.decode()).verify(sent.body + b" ", sent.headers)
    assert "X-Hub-Signature-256" in sent.headers


def test_both_secrets_are_valid_during_a_rotation() -> None:
    old = b"whsec_" + base64.b64encode(b"the one before the rotation")
    now_ms = time.time_ns() // 1_000_000
    sent = signed_request(secret=WHSEC, previous_secret=old, header_style="standard", now_ms=now_ms)
    assert len(sent.headers["webhook-signature"].split(" ")) == 2
    for secret in (WHSEC, old):
        assert Webhook(secret.decode()).verify(sent.body, sent.headers) == {"a": 1}
    assert signed_request(secret=WHSEC, previous_secret=old).headers == signed_request(secret=WHSEC).headers


@pytest.mark.parametrize("secret", [b"plain", b"whsec_", b"whsec_!!!!", b"whsec_abc", b"whsec_YQ==\n", b"\xff\x00"])
def test_a_secret_that_is_not_base64_is_used_as_the_key(secret: bytes) -> None:
    headers = signed_request(b"{}", secret=secret, header_style="standard").headers
    signed = f"0190-guid.{NOW_MS // 1000}.{{}}".encode()
    expected = base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"


@pytest.mark.parametrize(
    ("username", "password", "expected"),
    [
        ("octo", "cät:x", "octo:cät:x"),
        ("octo", None, "octo:"),
        (None, "pass", ":pass"),
        ("", "", None),
        (None, None, None),
    ],
)
def test_user_name_and_password_become_a_basic_authorization_header(
    username: str | None, password: str | None, expected: str | None
) -> None:
    header = signed_request(username=username, password=password).headers.get("Authorization")
    if expected is None:
        assert header is None
    else:
        assert header is not None
        assert base64.b64decode(header.removeprefix("Basic ")).decode() == expected


def test_recorded_headers_hide_only_credentials() -> None:
    headers = signed_request(username="octo", password="hunter2", secret=b"s").headers
    shown = redact(headers | {"proxy-authorization": "x"})
    assert shown.pop("proxy-authorization") == "********"
    assert shown.pop("Authorization") == "********"
    assert shown == {name: value for name, value in headers.items() if name != "Authorization"}
    assert headers["Authorization"] != "********"


def test_a_signer_prepares_each_delivery_independently() -> None:
    profile = Profile(hook_id=7, target_id=42, target_type="repository", content_type="json", secret=b"s")
    signer = Signer(profile)
    first = signer.prepare(b"1", guid="g1", event="push", now_ms=1)
    second = signer.prepare(b"2", guid="g2", event="ping", now_ms=2)
    assert (first.headers["X-Service-Delivery"], second.headers["X-Service-Delivery"]) == ("g1", "g2")
    assert (first.headers["X-Service-Event"], second.headers["X-Service-Event"]) == ("push", "ping")
    assert first.headers["X-Hub-Signature-256"] != second.headers["X-Hub-Signature-256"]
    assert signer.prepare(b"1", guid="g1", event="push", now_ms=1) == first


def test_printing_a_profile_does_not_reveal_its_secrets() -> None:
    out = Profile(
        hook_id=7, target_id=42, target_type="repository",
        secret=b"topsecret", previous_secret=b"oldsecret", username="octo", password="hunter2",
    )  # fmt: skip
    for text in (repr(out), str(out), f"{out}"):
        assert "7" in text
        assert not any(word in text for word in ("topsecret", "oldsecret", "hunter2"))
