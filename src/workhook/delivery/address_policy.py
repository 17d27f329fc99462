"""The addresses that a delivery may reach.

URLs are checked twice: `check_url` checks the text when a hook is created, and the *address* is checked when the socket
is opened. Only the second check cannot be bypassed by a DNS server that changes its responses.

The ranges come from the IANA special-purpose address registries (RFC 6890 and its updates). They are listed here
because `ipaddress.is_global` considers several of them global, and its results differ between Python versions.
"""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from workhook.core.errors import compose

if TYPE_CHECKING:
    from aiohttp.abc import ResolveResult

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_REFUSED_V4 = [
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT, and cloud metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's wire server: public by its number, but on the host
        "169.254.0.0/16",  # link-local, and most cloud metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments, and cloud metadata
        "192.0.2.0/24",  # TEST-NET-1
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # TEST-NET-2
        "203.0.113.0/24",  # TEST-NET-3
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
]
_GLOBAL_UNICAST_V6 = ipaddress.IPv6Network("2000::/3")
# Everything outside 2000::/3 is rejected: ::/96 including loopback, SIIT (::ffff:0:0:0/96), both NAT64 prefixes
# (64:ff9b::/96, 64:ff9b:1::/48), discard (100::/64), SRv6 (5f00::/16), ULA (fc00::/7), link-local (fe80::/10),
# site-local (fec0::/10), multicast (ff00::/8), and unassigned ranges.
_REFUSED_V6 = [
    ipaddress.IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID, ORCHIDv2, drone IDs
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: carries any IPv4 address
        "3fff::/20",  # documentation
    )
]
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")

MALFORMED_URL = "The URL you've entered is not valid. Please make sure that you encode all special characters first"
_UNREACHABLE_URL = (
    "url is not supported because it isn't reachable over the public Internet ({}). To deliver to a private network,"
    " start the server with --allow-network."
)

_NO_WEB_URL = "url must begin with http:// or https://"
_USER_IN_URL = (
    "url must not contain a username, password, or token. Send them as username and password of the "
    "configuration; they become an Authorization header."
)

_UNPRINTABLE = re.compile(
    r"[\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff\ud800-\udfff\\]"
)
_PORT = re.compile(r"[0-9]{1,5}")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_IPV4_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.ASCII)
_LONGEST_HOST = 253

# Errors of a system that has run out of resources; receivers cannot cause them.
_OWN_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


class AddressRefused(Exception):
    def __init__(self, address: str) -> None:
        super().__init__(f"{address} is not allowed")
        self.address = address


class ResourceExhausted(OSError):
    """This process has run out of descriptors, memory or threads, which does not count as an attempt.

    An `OSError`, because Happy Eyeballs propagates only those.
    """


class UrlError(msgspec.Struct, frozen=True):
    """Why a URL can't be delivered to. `code`: `malformed`, `scheme`, `userinfo`, `host`, `port` or `unreachable`."""

    code: str
    message: str


class AddressPolicy:
    """Permits public addresses, and those added by `allow` (CIDRs or single addresses).

    An IPv4 range also covers its IPv4-mapped IPv6 form. Raises `ValueError` for an invalid network.
    """

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._allow: list[_Network] = [
            _unmapped_network(ipaddress.ip_network(cidr.strip(), strict=False)) for cidr in allow
        ]

    def permits(self, address: str) -> bool:
        """Return whether `address`, an IP literal with an optional zone ID, may be reached. Other text is rejected."""
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return _is_public(parsed) or any(parsed in network for network in self._allow)


class Resolver(Protocol):
    """Resolves host names. Raises `OSError` for an unknown host."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> Sequence[ResolveResult]: ...


class GuardedResolver:
    """Rejects a name if any of its addresses is rejected; otherwise the order of the addresses would decide."""

    def __init__(self, policy: AddressPolicy, resolver: Resolver) -> None:
        self._policy = policy
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> Sequence[ResolveResult]:
        """Resolve `host`. Raises `AddressRefused`, or `OSError` for an unknown host."""
        answers = await self._resolver.resolve(host, port, family)
        if not answers:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        for answer in answers:
            if not self._policy.permits(answer["host"]):
                raise AddressRefused(answer["host"])
        return answers


def as_resource_exhausted(error: OSError) -> ResourceExhausted | None:
    if isinstance(error, ResourceExhausted):
        return error
    if error.errno in _OWN_ERRNOS and not isinstance(error, socket.gaierror):  # uses its own numbers
        return ResourceExhausted(error.errno, error.strerror)
    return None


def guarded_socket(policy: AddressPolicy, info: AddrInfoType) -> socket.socket:
    """Return a socket for the address about to be connected to, provided it is permitted.

    Covers IP literals in URLs too.

    Raises `AddressRefused` or `ResourceExhausted`.
    """
    address = str(info[4][0])
    if not policy.permits(address):
        raise AddressRefused(address)
    return open_socket(info)


def open_socket(info: AddrInfoType) -> socket.socket:
    """Return a socket without checking the address, for connections to a proxy. Raises `ResourceExhausted`."""
    family, kind, protocol, _, _ = info
    try:
        return socket.socket(family, kind, protocol)
    except OSError as error:
        raise as_resource_exhausted(error) or error from None


async def check_target(url: URL, policy: AddressPolicy, resolver: Resolver) -> None:
    """Check the address of a connection that a proxy opens. Raises `AddressRefused` or `OSError`."""
    host = url.raw_host or ""
    if parse_ip(host) is None:
        await GuardedResolver(policy, resolver).resolve(host, url.port or 0)
    elif not policy.permits(host):
        raise AddressRefused(host)


def check_url(url: str, policy: AddressPolicy) -> str | None:
    """Return why nothing can ever be delivered to `url`, or None."""
    fault = validate_url(url, policy)
    return None if fault is None else fault.message


def validate_url(url: str, policy: AddressPolicy) -> UrlError | None:
    """Check a URL without resolving its host name. The resolved addresses are checked when connecting."""
    if not url or _UNPRINTABLE.search(url):
        return UrlError("malformed", MALFORMED_URL)
    try:
        parsed = URL(url)
        port = parsed.port
    except ValueError:
        return UrlError("malformed", MALFORMED_URL)
    if parsed.scheme not in ("http", "https"):
        return UrlError("scheme", _NO_WEB_URL if parsed.scheme else MALFORMED_URL)
    authority = re.split(r"[/?#]", url.split("://", 1)[-1], maxsplit=1)[0]
    if "@" in authority:
        return UrlError("userinfo", _USER_IN_URL)
    if not _port_is_valid(authority, port):
        return UrlError("port", MALFORMED_URL)
    host = parsed.raw_host or ""
    address = parse_ip(host.removesuffix("."))
    if address is not None:
        return _examine_address(host, address, policy)
    return UrlError("host", MALFORMED_URL) if "[" in authority else _examine_name(host, policy)


def _examine_address(host: str, address: _Address, policy: AddressPolicy) -> UrlError | None:
    if not policy.permits(str(address)):
        return UrlError("unreachable", compose(_UNREACHABLE_URL, host))
    if isinstance(address, ipaddress.IPv4Address) and str(address) != host:
        # 2130706433, 0x7f.1, 017700000001: programs disagree on their meaning, so nothing is sent to them.
        return UrlError("host", MALFORMED_URL)
    return None


def _examine_name(host: str, policy: AddressPolicy) -> UrlError | None:
    """Check a host name as yarl passes it to the connector: IDNA-encoded and in lower case."""
    name = host.removesuffix(".")
    labels = name.split(".")
    if labels[-1] == "localhost" and not (policy.permits("127.0.0.1") or policy.permits("::1")):
        return UrlError("unreachable", compose(_UNREACHABLE_URL, host))
    if len(name) > _LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        return UrlError("host", MALFORMED_URL)
    if _IPV4_NUMBER.fullmatch(labels[-1]):  # in the URL standard, such a host is an IPv4 address or invalid
        return UrlError("host", MALFORMED_URL)
    return None


def _port_is_valid(authority: str, parsed: int | None) -> bool:
    """Check the port's text too, because yarl's result (`parsed`) accepts signs and underscores."""
    text = authority.rpartition("]")[2] if "]" in authority else authority
    _, colon, digits = text.rpartition(":")
    if colon and not _PORT.fullmatch(digits):
        return False
    return parsed is not None and 1 <= parsed <= 65_535


def parse_ip(host: str) -> _Address | None:
    """Parse an IP literal, including the IPv4 spellings of `inet_aton`: 2130706433, 0x7f.1, 0177.0.0.1."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    parts = host.lower().split(".")
    if len(parts) > 4 or not all(_IPV4_NUMBER.fullmatch(part) for part in parts):
        return None
    try:
        *high, low = [_ipv4_number(part) for part in parts]
    except ValueError:
        return None
    if any(part > 255 for part in high) or low >= 256 ** (4 - len(high)):
        return None
    return ipaddress.IPv4Address(sum(part << (24 - 8 * place) for place, part in enumerate(high)) + low)


def _ipv4_number(text: str) -> int:
    if len(text) > 32:
        raise ValueError("no number of an address is that long")
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if len(text) > 1 and text.startswith("0") else int(text)


def _is_public(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    return address in _GLOBAL_UNICAST_V6 and not any(address in network for network in _REFUSED_V6)


def _unmapped_network(network: _Network) -> _Network:
    """Convert an IPv4-mapped IPv6 range to IPv4, because addresses are compared in that form."""
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        mapped = network.network_address.ipv4_mapped
        return ipaddress.IPv4Network((str(mapped), network.prefixlen - 96))
    return network
