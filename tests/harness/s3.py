"""A server that speaks S3, on loopback: what it keeps is in memory."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue

import httpx

BUCKET = "files"
START_TIMEOUT_S = 120.0  # it imports much


@dataclass(frozen=True)
class S3:
    """`environment` is what a process that uses it needs."""

    url: str
    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }

    def object_names(self) -> list[str]:
        """Everything in the bucket."""
        listed = httpx.get(f"{self.endpoint}/{BUCKET}", params={"list-type": "2"}).text
        return [part.partition("</Key>")[0] for part in listed.split("<Key>")[1:]]

    def uploads(self) -> int:
        """How many were begun in parts and not ended."""
        return httpx.get(f"{self.endpoint}/{BUCKET}", params={"uploads": ""}).text.count("<UploadId>")


@contextmanager
def running_s3() -> Iterator[S3]:
    """With an empty bucket."""
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    address: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_read, args=(server, address), daemon=True).start()
    try:
        endpoint = address.get(timeout=START_TIMEOUT_S)
        httpx.put(f"{endpoint}/{BUCKET}").raise_for_status()
        yield S3(f"s3://{BUCKET}/acme/uploads", endpoint)
    finally:
        server.kill()
        server.wait()


def _read(server: subprocess.Popen[str], address: SimpleQueue[str]) -> None:
    """To the end, or the server would wait for room in the pipe."""
    assert server.stderr is not None
    with server.stderr as output:
        for line in output:
            if found := re.search(r"Running on (http://[0-9.:]+)", line):
                address.put(found[1])
