"""The yardstick of A1: the same framework on the same server, answering the same bytes from memory.

`python -m bench.plain FILE` serves the file's bytes at every path that has a column's tasks.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from litestar import Litestar, Request, Response
from litestar.handlers import HTTPRouteHandler


def main() -> None:
    body = Path(sys.argv[1]).read_bytes()

    async def answer(request: Request[Any, Any, Any]) -> Response[bytes]:
        return Response(body, media_type="application/json; charset=utf-8")

    app = Litestar([HTTPRouteHandler("/api/v1/columns/{column_id:str}/tasks", http_method=["GET"])(answer)])
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", ws="none", lifespan="off", log_config=None, access_log=False,
        server_header=False, proxy_headers=False,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
