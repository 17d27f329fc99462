"""Which addresses and URLs deliveries may reach."""

from __future__ import annotations

import ipaddress
import re
import socket

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from tests.delivery.receivers import Names
from workhook.delivery.address_policy import (
    AddressPolicy,
    AddressRefused,
    GuardedResolver,
    check_target,
    check_url,
    guarded_socket,
    validate_url,
)

PUBLIC = AddressPolicy()
LOCAL = AddressPolicy(["127.0.0.0/8", "::1"])
NOT_VALID = "The URL you've entered is not valid. Please make sure that you encode all special characters first"


def words(text: str) -> list[str]:
    return text.split()


# The first and the last address of every range, and the well-known addresses in it.
REFUSED = words(
    """
    0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.0
    127.0.0.1 127.255.255.255 168.63.129.16 169.254.0.0 169.254.169.254 169.254.255.255 172.16.0.0
    172.31.255.255 192.0.0.0 192.0.0.192 192.0.0.255 192.0.2.0 192.0.2.255 192.88.99.1 192.168.0.0
    192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.0 198.51.100.255 203.0.113.0 203.0.113.255 224.0.0.0
    239.255.255.255 240.0.0.0 255.255.255.254 255.255.255.255 :: ::1 ::7f00:1 ::8.8.8.8 ::ffff:127.0.0.1
    ::ffff:10.0.0.1 ::ffff:a9fe:a9fe ::ffff:0:127.0.0.1 ::ffff:0:8.8.8.8 64:ff9b::7f00:1 64:ff9b::8.8.8.8
    64:ff9b:1::1 64:ff9b:1:ffff:ffff:ffff:ffff:ffff 100::1 100:0:0:1::1 2001::1 2001:0:4136:e378::1 2001:2::1
    2001:10::1 2001:1f:ffff::1 2001:20::1 2001:2f:ffff::1 2001:30::1 2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff
    2001:db8::1 2001:db8:ffff::1 2002:7f00:1:: 2002:808:808::1 3fff::1 3fff:fff:ffff::1 4000::1 5f00::1
    5f00:ffff::1 fc00::1 fd00:ec2::254 fdff::1 fe80::1 fe80::1%eth0 fe80::1%25eth0 febf:ffff::1 fec0::1
    feff::1 ff00::1 ff02::1 ffff::1
    """
)
ALLOWED = words(
    """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 168.63.129.15
    168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.0.3.0 192.167.255.255
    192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255
    ::ffff:8.8.8.8 2001:200::1 2001:4860:4860::8888 2606:4700:4700::1111 2a00:1450:4001::1 2003::1
    3ffe:ffff::1 3fff:1000::1
    """
)


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_in_a_special_range_is_refused(address: str) -> None:
    assert not PUBLIC.permits(address)


@pytest.mark.parametrize("address", ALLOWED)
def test_a_public_address_is_allowed(address: str) -> None:
    assert PUBLIC.permits(address)


@given(st.ip_addresses(v=4))
def test_an_ipv4_mapped_address_is_treated_like_its_ipv4_address(address: ipaddress.IPv4Address) -> None:
    for policy in (PUBLIC, LOCAL, AddressPolicy(["10.0.0.0/9", "198.18.0.0/16"])):
        assert policy.permits(f"::ffff:{address}") == policy.permits(str(address))


@given(st.ip_addresses())
def test_addresses_that_python_considers_special_are_refused(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if not address.is_global or address.is_multicast:
        assert not PUBLIC.permits(str(address)) or getattr(address, "ipv4_mapped", None) is not None


@pytest.mark.parametrize(
    "text", ["", "localhost", "127.1", "2130706433", "0x7f.0.0.1", "010.0.0.1", "1.2.3", "[::1]", "8.8.8.8 "]
)
def test_text_that_is_not_an_address_literal_is_refused(text: str) -> None:
    assert not PUBLIC.permits(text)


@pytest.mark.parametrize(
    ("cidr", "inside", "outside"),
    [
        ("10.1.0.0/16", ["10.1.2.3", "::ffff:10.1.2.3"], ["10.2.0.1", "::10.1.2.3", "64:ff9b::10.1.2.3"]),
        ("10.1.2.3", ["10.1.2.3"], ["10.1.2.4"]),
        ("10.1.2.3/8", ["10.9.9.9"], ["11.0.0.0:"]),
        ("::ffff:10.0.0.0/104", ["10.9.9.9", "10.255.255.255", "::ffff:10.9.9.9"], ["127.0.0.1"]),
        ("fd00::/8", ["fd12::1"], ["fc00::1"]),
        ("fe80::/10", ["fe80::1%eth0"], ["fec0::1"]),
        ("64:ff9b::/96", ["64:ff9b::8.8.8.8"], ["64:ff9b:1::1"]),
        (" ::1 ", ["::1"], ["127.0.0.1"]),
        ("0.0.0.0/0", ["127.0.0.1", "::ffff:127.0.0.1"], ["::1"]),
        ("::/0", ["::1", "fe80::1"], ["127.0.0.1", "::ffff:127.0.0.1"]),
    ],
)
def test_the_allow_list_permits_only_the_networks_it_names(cidr: str, inside: list[str], outside: list[str]) -> None:
    policy = AddressPolicy([cidr])
    assert [address for address in inside if not policy.permits(address)] == []
    assert [address for address in outside if policy.permits(address)] == []
    assert policy.permits("8.8.8.8")


@pytest.mark.parametrize("cidr", ["", "localhost", "10.0.0.0/33", "10.0.0", "fe80::1%eth0/64x"])
def test_an_invalid_allow_list_is_an_error(cidr: str) -> None:
    with pytest.raises(ValueError):
        AddressPolicy([cidr])


# --- URLs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "https://example.com:8443/a/b?c=d&e=%20#f",
        "HTTPS://Example.COM/",
        "http://example.com./",
        "http://a_b.example/",
        "http://bücher.example/ü?ü=ü",
        "http://xn--bcher-kva.example/",
        "http://single/",
        "http://localhost.example.com/",
        "http://notlocalhost/",
        "http://1.example/",
        "http://8.8.8.8:1/",
        "http://8.8.8.8:65535/",
        "http://[2606:4700::1111]/",
        "http://[::ffff:8.8.8.8]/",
        "http://example.com/@user:x@y",
        "http://example.com?a@b",
        "http://" + "a" * 63 + ".example/",
    ],
)
def test_a_valid_public_url_is_accepted(url: str) -> None:
    assert check_url(url, PUBLIC) is None


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://localhost/", "localhost"),
        ("http://LocalHost:3000/x", "localhost"),
        ("http://localhost./", "localhost."),
        ("http://api.localhost/", "api.localhost"),
        ("http://\u24dbocalhost/", "localhost"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://127.0.0.1./", "127.0.0.1."),
        ("http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/", "127.0.0.1"),
        ("http://127\u30020\u30020\u30021/", "127.0.0.1"),
        ("http://10.0.0.1:8080/", "10.0.0.1"),
        ("http://169.254.169.254/latest/meta-data", "169.254.169.254"),
        ("http://2130706433/", "2130706433"),
        ("http://0x7f000001/", "0x7f000001"),
        ("http://0X7F.1/", "0x7f.1"),
        ("http://017700000001/", "017700000001"),
        ("http://0177.0.0.01/", "0177.0.0.01"),
        ("http://127.1/", "127.1"),
        ("http://127.0.1/", "127.0.1"),
        ("http://10.0xffffff/", "10.0xffffff"),
        ("http://0/", "0"),
        ("http://0x/", "0x"),
        ("http://[::1]/", "::1"),
        ("http://[::]/", "::"),
        ("http://[::ffff:127.0.0.1]/", "::ffff:7f00:1"),
        ("http://[0:0:0:0:0:ffff:7f00:1]/", "::ffff:7f00:1"),
        ("http://[64:ff9b::127.0.0.1]/", "64:ff9b::7f00:1"),
        ("http://[fe80::1%25eth0]/", "fe80::1%25eth0"),
    ],
)
def test_a_url_with_an_unreachable_host_is_rejected(url: str, host: str) -> None:
    expected = (
        f"url is not supported because it isn't reachable over the public Internet ({host}). To deliver to a private"
        " network, start the server with --allow-network."
    )
    assert check_url(url, PUBLIC) == expected
    fault = validate_url(url, PUBLIC)
    assert fault is not None
    assert fault.code == "unreachable"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("", "malformed"),
        (" http://example.com/", "malformed"),
        ("http://example.com/\n", "malformed"),
        ("http://exa\tmple.com/", "malformed"),
        ("http://example.com/a b", "malformed"),
        ("http://example.com/\x00", "malformed"),
        ("http://example.com/\x7f", "malformed"),
        ("http://example.com/\u2028", "malformed"),
        ("http://example.com/\u00a0", "malformed"),
        ("http://example.com/\ud800", "malformed"),
        ("http://example.com\\@127.0.0.1/", "malformed"),
        ("http://example.com/\\", "malformed"),
        ("http://[::1/", "malformed"),
        ("http://\u00ad/", "malformed"),
        ("http://example.com:65536/", "malformed"),
        ("http://example.com:x/", "malformed"),
        ("ftp://example.com/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://127.0.0.1:6379/_x", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("example.com", "scheme"),
        ("//example.com/", "scheme"),
        ("/hook", "scheme"),
        ("http://user:pass@example.com/", "userinfo"),
        ("http://user@example.com/", "userinfo"),
        ("http://@example.com/", "userinfo"),
        ("http://:@example.com/", "userinfo"),
        ("http://example.com@127.0.0.1/", "userinfo"),
        ("http://example.com:0/", "port"),
        ("http://example.com:/", "port"),
        ("http://example.com:+80/", "port"),
        ("http://example.com:8_0/", "port"),
        ("http://example.com:\uff18\uff10/", "port"),
        ("http://example.com:000080/", "port"),
        ("http://[2606:4700::1111]:0/", "port"),
        ("http:///path", "host"),
        ("http://", "host"),
        ("http://./", "host"),
        ("http://a..example/", "host"),
        ("http://.example/", "host"),
        ("http://-a.example/", "host"),
        ("http://a-.example/", "host"),
        ("http://" + "a" * 64 + ".example/", "host"),
        ("http://" + "a.b." * 70 + "example/", "host"),
        ("http://ex%61mple.com/", "host"),
        ("http://%31%32%37.0.0.1/", "host"),
        ("http://[v1.x]/", "host"),
        ("http://1.2.3.4.5/", "host"),
        ("http://1.2.3.256/", "host"),
        ("http://256.2.3.4/", "host"),
        ("http://example.0x7f/", "host"),
        ("http://134744072/", "host"),
        ("http://010.8.8.8/", "host"),
        ("http://8.8.8.8./", "host"),
    ],
)  # fmt: skip
def test_an_invalid_url_is_rejected(url: str, code: str) -> None:
    fault = validate_url(url, PUBLIC)
    assert fault is not None
    message = NOT_VALID
    if code == "userinfo":
        message = "url must not contain a username, password, or token. Send them as username and password of the "
        message += "configuration; they become an Authorization header."
    elif code == "scheme" and re.match("[a-z]+:", url):
        message = "url must begin with http:// or https://"
    assert (fault.code, fault.message) == (code, message)
    assert check_url(url, PUBLIC) == message


@pytest.mark.parametrize("url", ["http:/example.com/", "http:example.com", "http:\u3000//example.com"])
def test_a_url_without_an_authority_is_rejected(url: str) -> None:
    assert check_url(url, PUBLIC) == NOT_VALID


def test_loopback_urls_are_accepted_if_the_allow_list_permits_them() -> None:
    for url in ("http://localhost:3000/", "http://a.localhost/", "http://127.0.0.1/", "http://[::1]/"):
        assert check_url(url, LOCAL) is None
    assert check_url("http://localhost/", AddressPolicy(["::1"])) is None
    assert check_url("http://localhost/", AddressPolicy(["10.0.0.0/8"])) is not None
    assert check_url("http://127.0.0.1./", LOCAL) == NOT_VALID
    assert check_url("http://2130706433/", LOCAL) == NOT_VALID


@given(st.text(max_size=40))
@example("http://[")
@example("http://\ud800")
@example("http://\u0661.\u0662.\u0663.\u0664/")
@example("http://a:" + "9" * 5000)
@example("http://" + "9" * 5000)
@example("http://0x" + "f" * 5000)
@example("http://[" + ":" * 500 + "]")
def test_arbitrary_text_never_crashes_the_check(text: str) -> None:
    for url in (text, "http://" + text, "http://" + text + "@h/", "https://h:" + text):
        wrong = check_url(url, PUBLIC)
        assert wrong in (None, NOT_VALID) or wrong.startswith(("url is not supported", "url must"))


@given(st.ip_addresses(v=4), st.sampled_from(["{:d}", "{:#x}", "0{:o}", "dotted"]))
def test_every_spelling_of_a_refused_address_is_rejected(address: ipaddress.IPv4Address, spelling: str) -> None:
    host = str(address) if spelling == "dotted" else spelling.format(int(address))
    if not PUBLIC.permits(str(address)):
        assert check_url(f"http://{host}/", PUBLIC) is not None


# --- When connecting ----------------------------------------------------------------------------------------------


def info(address: str) -> tuple[int, int, int, str, tuple[str, int]]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, 80)


def test_no_socket_is_created_for_a_refused_address() -> None:
    for address in ("127.0.0.1", "::1", "::ffff:10.0.0.1", "169.254.169.254", "127.1"):
        with pytest.raises(AddressRefused, match=r"is not allowed") as caught:
            guarded_socket(PUBLIC, info(address))
        assert caught.value.address == address
    with guarded_socket(LOCAL, info("127.0.0.1")) as made:
        assert (made.family, made.type) == (socket.AF_INET, socket.SOCK_STREAM)


@pytest.mark.parametrize(
    ("answers", "refused"),
    [
        (["127.0.0.1"], "127.0.0.1"),
        (["8.8.8.8", "10.0.0.1"], "10.0.0.1"),
        (["8.8.8.8", "::1"], "::1"),
        (["fe80::1%2"], "fe80::1%2"),
    ],
)
async def test_every_resolved_address_must_be_allowed(answers: list[str], refused: str) -> None:
    with pytest.raises(AddressRefused) as caught:
        await GuardedResolver(PUBLIC, Names(answers)).resolve("receiver.example", 80)
    assert caught.value.address == refused


async def test_allowed_addresses_are_returned_and_resolver_errors_propagate() -> None:
    found = await GuardedResolver(PUBLIC, Names(["8.8.8.8", "2606:4700::1"])).resolve("receiver.example", 80)
    assert [answer["host"] for answer in found] == ["8.8.8.8", "2606:4700::1"]
    with pytest.raises(socket.gaierror):
        await GuardedResolver(PUBLIC, Names(socket.gaierror(socket.EAI_NONAME, "no"))).resolve("receiver.example")


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "http://[::1]/", "http://receiver.example/"])
async def test_a_target_behind_a_proxy_is_checked_too(url: str) -> None:
    with pytest.raises(AddressRefused):
        await check_target(URL(url), PUBLIC, Names(["8.8.8.8", "10.0.0.1"]))
    await check_target(URL("http://8.8.8.8/"), PUBLIC, Names([]))


async def test_a_name_without_addresses_does_not_resolve() -> None:
    with pytest.raises(socket.gaierror):
        await GuardedResolver(PUBLIC, Names([])).resolve("receiver.example", 80)
