"""Sends requests and records each one with its response as a JSON line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import quote

import httpx

from tests.recorded.placeholders import Placeholders

_SENT = {"accept", "content-type", "if-match", "if-none-match", "idempotency-key", "x-service-api-version", "range"}
_TEXT = ("text/", "application/javascript", "application/problem", "image/svg", "application/x-www-form-urlencoded")


class Recorder:
    """Records requests. `operation` is the current operation: a method and a path as in the OpenAPI document."""

    def __init__(self, address: str, receiver: str, output: IO[str]) -> None:
        self.address = address
        self._http = httpx.Client(base_url=address, timeout=60, verify=False)
        words = {address: "http://SERVER", quote(address, safe=""): "http://SERVER", receiver: "http://RECEIVER"}
        self._placeholders = Placeholders(words)
        self._output = output
        self.operation = "setup"
        self.sent = 0

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def begin(self, operation: str) -> None:
        self.operation = self._placeholders.operation = operation

    def look(self, path: str, by: str) -> httpx.Response:
        """Send a GET that is not recorded."""
        return self._http.get(path, headers={"Authorization": by} if by else {})

    def ask(
        self, method: str, path: str, label: str, by: str = "", headers: Mapping[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        """Send a request and record it.

        `by` is the value of the Authorization header; `label` describes the purpose of the request.
        """
        sent = {**(headers or {}), **({"Authorization": by} if by else {})}
        response = self._http.request(method, path, headers=sent, **more)
        self._http.cookies.clear()  # a browser sends its own cookies
        self.note(response, label, self._body(response))
        return response

    def stream(self, path: str, label: str, by: str) -> None:
        """Record the head of a stream and its first event."""
        with self._http.stream("GET", path, headers={"Authorization": by}) as response:
            lines: list[str] = []
            for line in response.iter_lines():
                lines.append(line)
                if line == "" and any(each.startswith("data:") for each in lines):
                    break
            self.note(response, label, [self._line(each) for each in lines])

    def _line(self, line: str) -> Any:
        name, _, value = line.partition(":")
        try:
            return {name: self._placeholders.value(json.loads(value))}
        except ValueError:
            return self._placeholders.text(line)

    def note(self, response: httpx.Response, label: str, body: Any) -> None:
        request, known = response.request, self._placeholders
        length = 0 if response.is_stream_consumed is False else len(getattr(response, "_content", b""))
        if request.method == "HEAD" or response.status_code == 304:
            length = int(response.headers.get("content-length", 0))
        entry = {
            "operation": self.operation,
            "request": label,
            "method": request.method,
            "path": known.text(str(request.url.raw_path.decode())),
            "headers sent": known.headers([each for each in request.headers.items() if each[0] in _SENT], -1),
            "status": response.status_code,
            "headers": known.headers(response.headers.multi_items(), length),
            "body": body,
        }
        self._output.write(json.dumps(entry, ensure_ascii=False) + "\n")
        self.sent += 1

    def _body(self, response: httpx.Response) -> Any:
        kind = response.headers.get("content-type", "")
        if "json" in kind:
            return self._placeholders.value(response.json()) if response.content else ""
        if self.operation.endswith("/metrics"):
            return sorted({line.split("{")[0].split(" ")[0] for line in response.text.splitlines() if line[:1] != "#"})
        if self.operation.endswith("/zen") and response.is_success:
            return "<zen>"  # a random choice of several
        if kind.startswith(_TEXT):
            return self._placeholders.text(response.text)
        if kind in ("application/pdf", "application/xml"):
            return response.content[:5].decode()  # the rest contains times and random names
        return response.content.hex()
