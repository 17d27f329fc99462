"""The address of a hook is opaque: shown, recorded and requested as it was written."""

from __future__ import annotations

from tests.api.wire import BAD_URL, Api, Place, custom, invalid
from tests.delivery.test_request_target import TARGETS
from tests.harness.receiver import Receiver
from tests.harness.waiting import until


def test_every_address_arrives_as_it_was_written(api: Api, organization: Place, receiver: Receiver) -> None:
    base = receiver.url.removesuffix("/hook")
    targets = [each for each in TARGETS if not each.startswith("//")]  # which Python's own server shortens
    hooks = {}
    for number, target in enumerate(targets):
        url = f"{base}{target}"
        config = {"url": url, "content_type": "json" if number % 2 else "form", "retries": "0"}
        hook = api.hook(organization, config=config, events=["fork"], active=True)
        assert hook["config"]["url"] == api.read(f"{hook['url']}/config")["url"] == url
        hooks[target] = hook
    arrived = receiver.wait_for(len(targets))
    assert sorted(each.path for each in arrived) == sorted(targets)
    for target in ("/q?sig=ab%2Fcd%3D&se=2026%3A01", "/a/../b", "/q?"):
        hook = hooks[target]
        [ping] = until(lambda hook=hook: api.read(hook["deliveries_url"]))  # type: ignore[misc]  # bound at once
        assert api.read(f"{hook['deliveries_url']}/{ping['id']}")["url"] == f"{base}{target}"
        assert api.post(f"{hook['deliveries_url']}/{ping['id']}/attempts").status_code == 202
        assert api.post(hook["ping_url"]).status_code == 204
    again = receiver.wait_for(len(targets) + 6)[len(targets) :]
    assert sorted({each.path for each in again}) == sorted(("/q?sig=ab%2Fcd%3D&se=2026%3A01", "/a/../b", "/q?"))


def test_what_has_to_be_encoded_is_refused_and_nothing_is_guessed(api: Api, place: Place) -> None:
    bad = custom(BAD_URL, "url")
    for url in ("/ö", "/a b", "/%", "/%zz", '/"', "/\\", "/a\nb", "/{a}", "/q?a=|"):
        invalid(api.create(place, config={"url": f"http://127.0.0.1:9{url}"}), bad)
    for host in ("Example.COM", "XN--BCHER-KVA.example", "a_b.example"):
        url = f"https://{host}/%2f/./?a="
        made = api.hook(place, config={"url": url})
        assert made["config"]["url"] == url
    invalid(api.create(place, config={"url": "https://bücher.example/"}), bad)


def test_an_address_that_cannot_be_used_says_what_to_do(api: Api, place: Place) -> None:
    user = "url must not contain a user name, password or token. Send them as username and password of the "
    user += "configuration; they become an Authorization header."
    for authority in ("user:token@host.example", "token@host.example", ":x@host.example", "@host.example"):
        invalid(api.create(place, config={"url": f"https://{authority}/hook"}), custom(user, "url"))
    for url in ("ftp://x", "ftp://x.example/hook", "ws://x.example/", "javascript:alert(1)", "mailto:a@b.example"):
        invalid(api.create(place, config={"url": url}), custom("url must begin with http:// or https://", "url"))
