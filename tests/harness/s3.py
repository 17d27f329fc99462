"""An S3 server on loopback that keeps its objects in memory."""

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
START_TIMEOUT_S = 120.0  # it imports many modules


@dataclass(frozen=True)
class S3:
    """A running server. `environment` contains the variables that its clients need."""

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
        """Return the names of all objects in the bucket."""
        listed = httpx.get(f"{self.endpoint}/{BUCKET}", params={"list-type": "2"}).text
        return [part.partition("</Key>")[0] for part in listed.split("<Key>")[1:]]

    def uploads(self) -> int:
        """Return the number of unfinished multipart uploads."""
        return httpx.get(f"{self.endpoint}/{BUCKET}", params={"uploads": ""}).text.count("<UploadId>")


@contextmanager
def running_s3() -> Iterator[S3]:
    """Run a server with an empty bucket."""
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
    """Read all output, because the server would otherwise block on a full pipe."""
    assert server.stderr is not None
    with server.stderr as output:
        for line in output:
            if found := re.search(r"Running on (http://[0-9.:]+)", line):
                address.put(found[1])
