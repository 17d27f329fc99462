"""A server with the two organizations, which delivers nothing while a test compares states."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from tests.harness.server import Server, SharedServer
from tests.walls.dump import Reader
from tests.walls.world import Walls, build_walls


@pytest.fixture(scope="module")
def walls(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walls]:
    folder, receiver = tmp_path_factory.mktemp("walls"), Receiver()
    settings = backend.new(folder)
    server = SharedServer(folder, settings, command=("serve", "--port", "0", "--no-worker")).start()
    worker = Server(folder, settings, command=("worker",)).start()
    reader = Reader(server)
    try:
        walls = build_walls(server, worker, reader, receiver)
        yield walls
        walls.close()
    finally:
        reader.close()
        worker.close()
        server.close()
        receiver.close()
