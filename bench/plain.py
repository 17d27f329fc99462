"""The baseline of A1: the same server without a framework, returning the same bytes from memory.

`python -m bench.plain FILE` serves the file's bytes at every path.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn


def main() -> None:
    body = Path(sys.argv[1]).read_bytes()
    headers = [(b"content-type", b"application/json; charset=utf-8"), (b"content-length", b"%d" % len(body))]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    listening = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", ws="none", lifespan="off", log_config=None, access_log=False,
        server_header=False, proxy_headers=False,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
