"""Requests are refused by their headers (WEB-1)."""

import pytest

from engine.errors import ConfigError, UsageError
from engine.web.access import Access, Headers
from engine.web.access_token import check_token, new_token, token_of_environment

BOUND = ("127.0.0.1", "127.0.0.1")


def headers(**values: str) -> Headers:
    return [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in values.items()]


def refused(method: str = "GET", bound: tuple[str, ...] = BOUND, allowed: tuple[str, ...] = (), **values: str) -> int | None:
    refusal = Access(token=None, allowed_hosts=allowed, bound_hosts=bound).refusal(method, headers(**values))
    return None if refusal is None else refusal.status


@pytest.mark.guarantee("WEB-1")
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.1.2.3", "[::1]:80", "[::1]"])
def test_loopback_is_always_allowed(host: str) -> None:
    assert refused(host=host) is None


@pytest.mark.guarantee("WEB-1")
@pytest.mark.parametrize(
    "host",
    [
        *("evil.example.com", "localhost.evil.example.com", "127.0.0.1.nip.io", "192.0.2.7", "", " ", ":80", "[::1", "::1"),
        *("localhost:99999999", "user@localhost", "localhost/x", "localhost evil", "[::ffff:192.0.2.7]", "0x7f.1", "\xff", "2130706433"),
    ],
)
def test_other_hosts_are_refused(host: str) -> None:
    assert refused(host=host) == 421


@pytest.mark.guarantee("WEB-1")
def test_one_host_header_is_needed() -> None:
    access = Access(token=None, allowed_hosts=(), bound_hosts=BOUND)
    for sent in ([], [(b"host", b"localhost"), (b"host", b"localhost")]):
        refusal = access.refusal("GET", sent)
        assert refusal is not None
        assert refusal.status == 421


@pytest.mark.guarantee("WEB-1")
def test_a_server_for_all_addresses_takes_addresses_but_no_names() -> None:
    assert refused(bound=("0.0.0.0", "0.0.0.0"), host="192.0.2.7:8080") is None
    assert refused(bound=("::", "::"), host="[2001:db8::7]:8080") is None
    assert refused(bound=("0.0.0.0", "0.0.0.0"), host="evil.example.com") == 421
    assert refused(bound=(), host="192.0.2.7") is None, "a mounted application"


@pytest.mark.guarantee("WEB-1")
def test_the_bound_address_and_allowed_names_are_allowed() -> None:
    assert refused(bound=("inside.lan", "192.0.2.7"), host="inside.lan:8080") is None
    assert refused(bound=("inside.lan", "192.0.2.7"), host="192.0.2.7:8080") is None
    assert refused(bound=("inside.lan", "192.0.2.7"), host="192.0.2.8:8080") == 421
    assert refused(allowed=("Engine.Example.com",), host="engine.example.COM:443") is None
    assert refused(allowed=("[2001:db8::7]", "2001:db8::8"), host="[2001:DB8::8]") is None


@pytest.mark.parametrize("host", ["", "a:80", "http://a", "a/b", "a b", None, 7, "*@x"])
def test_a_wrong_allowed_host_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="allowed host"):
        Access(token=None, allowed_hosts=(host,))


@pytest.mark.guarantee("WEB-1")
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example.com", "null", "", "http://127.0.0.1:9999", "http://127.0.0.1", "https://[::1", "ftp://127.0.0.1:8080", "\xff"],
)
def test_a_change_from_another_origin_is_refused(origin: str) -> None:
    assert refused("POST", host="127.0.0.1:8080", origin=origin) == 403


@pytest.mark.guarantee("WEB-1")
def test_a_change_from_the_page_or_from_a_program_is_allowed() -> None:
    assert refused("POST", host="127.0.0.1:8080", origin="http://127.0.0.1:8080", sec_fetch_site="same-origin") is None
    assert refused("POST", host="127.0.0.1:8080") is None
    assert refused("POST", bound=(), allowed=("a.example.com",), host="a.example.com", origin="https://A.example.com") is None
    assert refused("POST", bound=(), allowed=("a.example.com",), host="a.example.com:443", origin="https://a.example.com") is None


@pytest.mark.guarantee("WEB-1")
def test_a_page_of_another_site_cannot_even_read() -> None:
    assert refused("POST", host="localhost", sec_fetch_site="cross-site") == 403
    assert refused("GET", host="localhost", sec_fetch_site="cross-site", sec_fetch_mode="no-cors") == 403
    assert refused("GET", host="localhost", sec_fetch_site="cross-site", sec_fetch_mode="navigate") is None, "a link to the page"
    assert refused("POST", host="localhost", sec_fetch_site="cross-site", sec_fetch_mode="navigate") == 403, "a form"


@pytest.mark.guarantee("WEB-1")
@pytest.mark.parametrize(
    "sent",
    [
        None,
        "",
        "secret",
        "Bearer",
        "Bearer ",
        "Bearer secret2",
        "Bearer secre",
        "Basic secret",
        "Bearer sécret",
        "Bearer \xff\xfe",
        "Bearer\tsecret",
    ],
)
def test_a_change_needs_the_token(sent: str | None) -> None:
    access = Access(token="secret", allowed_hosts=())
    refusal = access.change_refusal([] if sent is None else headers(authorization=sent))
    assert refusal is not None
    assert refusal.status == 401
    assert "secret" not in refusal.hint


@pytest.mark.guarantee("WEB-1")
def test_the_token_allows_a_change() -> None:
    access = Access(token="secret", allowed_hosts=())
    assert access.can_steer
    assert access.change_refusal(headers(authorization="Bearer secret")) is None
    assert access.change_refusal(headers(authorization="bearer  secret")) is None
    twice = [*headers(authorization="Bearer secret"), *headers(authorization="Bearer secret")]
    assert access.change_refusal(twice) is not None


@pytest.mark.guarantee("WEB-1")
def test_without_a_token_nothing_can_be_changed() -> None:
    access = Access(token=None, allowed_hosts=())
    assert not access.can_steer
    refusal = access.change_refusal(headers(authorization="Bearer None"))
    assert refusal is not None
    assert refusal.status == 403


@pytest.mark.guarantee("WEB-1")
@pytest.mark.parametrize("token", ["", " ", "a b", "sécret", "a\n"])
def test_a_token_that_cannot_be_sent_is_refused(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="HTTP token: here"):
        check_token(token, "here")
    monkeypatch.setenv("ENGINE_HTTP_TOKEN", token)
    with pytest.raises(ConfigError, match="ENGINE_HTTP_TOKEN"):
        token_of_environment()


def test_tokens_are_random(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({check_token(new_token(), "new") for _ in range(20)}) == 20
    monkeypatch.delenv("ENGINE_HTTP_TOKEN", raising=False)
    assert token_of_environment() is None
