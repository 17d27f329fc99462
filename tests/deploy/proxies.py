"""The proxies of `deploy/` in front of a server. Only names, ports and paths differ from the shipped files."""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.harness.debian import Program, program
from tests.harness.waiting import until

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "work.example.com"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "proxy.pem", folder / "proxy.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """Replace text. Raise `AssertionError` if it is missing, so that the test covers the shipped file."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


@contextmanager
def nginx(server_url: str, folder: Path) -> Iterator[str]:
    """Yield the proxy's URL. Plain HTTP is served at another port, which redirects here."""
    found = program("nginx", "nginx")
    port, plain = free_port(), free_port()
    certificate, key = make_certificate(folder)
    shipped = _nginx_site(server_url, port, plain, certificate, key)
    temporary = "\n".join(
        f"{each}_temp_path {folder / each};" for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off;\nmaster_process off;\npid {folder / 'nginx.pid'};\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}\n{shipped}\n}}\n"
    )
    with running(found, [found.path, "-p", str(folder), "-c", str(config)], folder, port):
        yield f"https://127.0.0.1:{port}"


def _nginx_site(server_url: str, port: int, plain: int, certificate: Path, key: Path) -> str:
    return replaced(
        (DEPLOY / "nginx" / "workhook.conf").read_text(encoding="utf-8"),
        ("server 127.0.0.1:8000;", f"server {urlsplit(server_url).netloc};"),
        ("    listen [::]:80;\n", ""),
        ("    listen [::]:443 ssl http2;\n", ""),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("listen 443 ssl http2;", f"listen 127.0.0.1:{port} ssl http2;"),
        (f"/etc/ssl/certs/{NAME}.pem", str(certificate)),
        (f"/etc/ssl/private/{NAME}.key", str(key)),
        ("/var/log/nginx/workhook.log", str(certificate.with_name("access.log"))),
    )


@contextmanager
def caddy(server_url: str, folder: Path) -> Iterator[str]:
    """Run Caddy with a certificate from this test, because it would request one from an authority otherwise."""
    found = program("caddy", "caddy")
    port = free_port()
    certificate, key = make_certificate(folder)
    site = replaced(
        (DEPLOY / "caddy" / "Caddyfile").read_text(encoding="utf-8"),
        (f"{NAME} {{", f"https://127.0.0.1:{port} {{\n\ttls {certificate} {key}"),
        ("127.0.0.1:8000", urlsplit(server_url).netloc),
    )
    config = folder / "Caddyfile"
    config.write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + site)
    command = [found.path, "run", "--config", str(config), "--adapter", "caddyfile"]
    with running(found, command, folder, port):
        yield f"https://127.0.0.1:{port}"


@contextmanager
def running(found: Program, command: list[str], folder: Path, port: int) -> Iterator[None]:
    log = folder / "log"
    homes = {name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **found.environment, **homes}, stdout=output, stderr=output
        )

    def listens() -> bool:
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(listens)
        yield
    finally:
        process.terminate()
        process.wait(30)
