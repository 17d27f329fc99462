"""OpenID providers for signing in: a real one in its own process, and one that returns whatever a test wants."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from joserfc import jws, jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

CLIENT_ID, CLIENT_SECRET = "workhook & co", "s3cret: with / signs"
START_TIMEOUT_S = 30.0

Claims = dict[str, Any]


class Provider:
    """An `oidc-provider-mock` process, used over HTTP only."""

    def __init__(self) -> None:
        self.url = ""
        self._ready = threading.Event()
        command = [sys.executable, "-m", "oidc_provider_mock", "--port", "0", "--require-nonce"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        assert self._ready.wait(START_TIMEOUT_S)

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as said:
            for line in said:
                if found := re.search(r"running on \S*?(http://127\.0\.0\.1:\d+)", re.sub(r"\x1b\[\d+m", "", line)):
                    self.url = found[1]
                    self._ready.set()

    def know(self, subject: str, **claims: Any) -> None:
        httpx.put(f"{self.url}/users/{subject}", json=claims, timeout=60).raise_for_status()

    def consent(self, address: str, subject: str) -> str:
        """Consent like a person on the provider's page would, and return the address that the browser is sent to."""
        answer = httpx.post(address, data={"sub": subject}, timeout=60)
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    def close(self) -> None:
        self._process.kill()
        self._process.wait(30)
        self._thread.join(30)


@dataclass
class Asked:
    """A request to the token endpoint."""

    form: dict[str, str]
    authorization: str


class Forger:
    """A provider whose ID token, keys and documents are controlled by the test."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self.asked: list[Asked] = []
        self.code_status = 200
        self.forget()
        forger = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                documents: dict[str, Callable[[], Any]] = {
                    "/.well-known/openid-configuration": forger.metadata,
                    "/jwks": forger.jwks,
                    "/userinfo": lambda: forger.userinfo,
                }
                self._answer(200, documents[urlsplit(self.path).path]())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                forger.asked.append(Asked(form, self.headers.get("authorization", "")))
                forger.check_verifier(form["code"], form["code_verifier"])
                said = {"access_token": "access", "token_type": "Bearer", "id_token": forger.tokens.pop(form["code"])}
                self._answer(forger.code_status, said)

            def _answer(self, status: int, said: Any) -> None:
                body = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def forget(self) -> None:
        self.tokens: dict[str, object] = {}
        self.challenges: dict[str, str] = {}
        self.userinfo: Claims = {}

    def metadata(self) -> Claims:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize?tenant=7",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "userinfo_endpoint": f"{self.url}/userinfo",
        }

    def jwks(self) -> Any:
        strange = {"kty": "OKP", "crv": "X25519", "x": "AAAA", "kid": "strange"}
        broken = {"kty": "RSA", "n": "!", "e": "AQAB", "kid": "broken"}
        return {"keys": [strange, broken, *KeySet([self.key]).as_dict()["keys"]]}

    def claims(self, address: str, **changes: Any) -> Claims:
        """Return valid ID token claims for the sign-in that began with `address`. A change to None removes a claim."""
        query = parse_qs(urlsplit(address).query)
        now = int(time.time())
        claims = {
            "iss": self.url, "aud": CLIENT_ID, "exp": now + 300, "iat": now, "nonce": query["nonce"][0],
            "sub": secrets.token_hex(8), "email": "somebody@example.com", **changes,
        }  # fmt: skip
        return {name: value for name, value in claims.items() if value is not None}

    def issue(self, address: str, token: object) -> str:
        """Issue a code for the token."""
        code = secrets.token_urlsafe(16)
        self.tokens[code] = token
        self.challenges[code] = parse_qs(urlsplit(address).query)["code_challenge"][0]
        return code

    def check_verifier(self, code: str, verifier: str) -> None:
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        assert digest == self.challenges[code]

    def sign(self, claims: Claims, **header: Any) -> str:
        # As JSON it is ASCII, so it can also contain invalid characters (surrogates).
        return self.sign_text(json.dumps(claims), **header)

    def sign_text(self, content: str, **header: Any) -> str:
        return jws.serialize_compact({"alg": "RS256", "kid": "one", **header}, content, self.key)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def unsigned(forger: Forger, claims: Claims) -> str:
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _hs256(claims: Claims, secret: bytes) -> str:
    """Sign by hand, because libraries refuse to use a public key as an HMAC secret."""
    signed = f"{_part({'alg': 'HS256', 'kid': 'one'})}.{_part(claims)}"
    digest = hmac.digest(secret, signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def signed_with_the_public_key(forger: Forger, claims: Claims) -> str:
    return _hs256(claims, forger.key.as_pem(private=False))


def signed_with_the_client_secret(forger: Forger, claims: Claims) -> str:
    return _hs256(claims, CLIENT_SECRET.encode())


def signed_by_another(forger: Forger, claims: Claims) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one"}, claims, RSAKey.generate_key(2048))


def signed_by_an_embedded_key(forger: Forger, claims: Claims) -> str:
    key = ECKey.generate_key("P-256")
    header = {"alg": "ES256", "jwk": key.as_dict(private=False)}
    return jwt.encode(header, claims, key)


def changed_after_signing(forger: Forger, claims: Claims) -> str:
    head, _, signature = forger.sign({**claims, "sub": "somebody"}).split(".")
    return f"{head}.{_part(claims)}.{signature}"


def stronger_than_we_take(forger: Forger, claims: Claims) -> str:
    return jwt.encode({"alg": "RS512", "kid": "one"}, claims, forger.key, algorithms=["RS512"])


FORGERIES: tuple[Callable[[Forger, Claims], object], ...] = (
    unsigned,
    signed_with_the_public_key,
    signed_with_the_client_secret,
    signed_by_another,
    signed_by_an_embedded_key,
    changed_after_signing,
    stronger_than_we_take,
    lambda forger, claims: "nonsense",
    lambda forger, claims: None,
    lambda forger, claims: claims,
    lambda forger, claims: forger.sign(claims, kid="unknown"),
    lambda forger, claims: forger.sign(claims) + "A" * 200_000,
)
