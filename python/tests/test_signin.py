"""Signing in, by a page and by tokens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import eodispatch
from eodispatch import addresses, sessions

from .conftest import Browser, Demo, command_line


def stored(home: Path) -> Path:
    (found,) = (home / ".local/state/eodispatch").glob("*.json")
    return found


def test_a_page_signs_in_once(demo: Demo, home: Path, browser: Browser) -> None:
    with eodispatch.connect(demo.broker, interactive=True) as c:
        assert c.user() == "alice"
    assert len(browser.opened) == 1
    if sys.platform != "win32":
        assert stored(home).stat().st_mode & 0o777 == 0o600
        assert stored(home).parent.stat().st_mode & 0o777 == 0o700
    with eodispatch.connect() as again:  # the broker of the last sign-in, and nobody can be asked
        assert (again.url, again.user()) == (demo.broker, "alice")
    assert len(browser.opened) == 1


def test_the_command_line_has_the_same_sign_in(demo: Demo, home: Path, browser: Browser) -> None:
    eodispatch.connect(demo.broker, interactive=True).close()
    shown = command_line("whoami", home=home)
    assert "alice" in shown.stdout, shown.stderr
    with eodispatch.connect() as c:
        c.sign_out()
    assert command_line("whoami", home=home).returncode != 0
    with pytest.raises(eodispatch.SignInRequired):
        eodispatch.connect(demo.broker)


def test_a_token_is_renewed_before_it_ends(demo: Demo, home: Path, browser: Browser) -> None:
    eodispatch.connect(demo.broker, interactive=True).close()
    document = json.loads(stored(home).read_text())
    old = document["grant"]["access_token"]
    document["grant"]["expiry"] = "2026-01-01T02:00:00.123456789+01:00"  # as the command line writes it
    stored(home).write_text(json.dumps(document))
    with eodispatch.connect() as c:
        assert c.user() == "alice"
    grant = json.loads(stored(home).read_text())["grant"]
    assert grant["access_token"] != old and grant["expiry"] > "2026-01-02"


def test_one_of_several_processes_renews_a_token(demo: Demo, home: Path, browser: Browser) -> None:
    eodispatch.connect(demo.broker, interactive=True).close()
    document = json.loads(stored(home).read_text())
    document["grant"]["expiry"] = "2026-01-01T00:00:00Z"
    stored(home).write_text(json.dumps(document))
    code = "import eodispatch; print(eodispatch.connect().transport.authorization())"
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert command_line("usage", home=home).returncode == 0
    shown = {process.communicate(timeout=600)[0] for process in processes}
    assert len(shown) == 1 and json.loads(stored(home).read_text())["grant"]["access_token"] in shown.pop()


def test_a_token_that_is_refused_is_renewed(demo: Demo, home: Path, browser: Browser) -> None:
    eodispatch.connect(demo.broker, interactive=True).close()
    document = json.loads(stored(home).read_text())
    document["grant"]["access_token"] = "no.such.token"
    stored(home).write_text(json.dumps(document))
    with eodispatch.connect() as c:
        assert c.user() == "alice"
    assert len(browser.opened) == 1


def test_a_sign_in_that_has_ended_is_made_anew(demo: Demo, home: Path, browser: Browser) -> None:
    eodispatch.connect(demo.broker, interactive=True).close()
    document = json.loads(stored(home).read_text())
    document["grant"] |= {"expiry": "2026-01-01T00:00:00Z", "refresh_token": "ended"}
    stored(home).write_text(json.dumps(document))
    with pytest.raises(eodispatch.SignInRequired):
        eodispatch.connect(demo.broker, interactive=False)
    eodispatch.connect(demo.broker, interactive=True, offline=True).close()
    assert len(browser.opened) == 2


def test_a_refused_sign_in(demo: Demo, browser: Browser) -> None:
    browser.choice = "as=alice&deny=1"
    with pytest.raises(eodispatch.SignInRequired, match="access_denied"):
        eodispatch.connect(demo.broker, interactive=True)


def test_variables_of_scripts(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EODISPATCH_BROKER", demo.broker)
    monkeypatch.setenv("EODISPATCH_TOKEN", demo.token())
    with eodispatch.connect() as c:
        assert c.user() == "alice"


def test_a_token_of_nobody(demo: Demo) -> None:
    with eodispatch.connect(demo.broker, token="no.such.token") as c:
        with pytest.raises(eodispatch.SignInRequired) as caught:
            c.services()
    assert (caught.value.status, caught.value.code) == (401, "AUTHENTICATION_FAILED") and caught.value.request_id


def test_another_broker_with_the_same_provider_and_client(demo: Demo, home: Path) -> None:
    issuer = f"{demo.provider}/realms/apex"
    other = sessions.Session("other", "https://other.example.org", issuer, "portal", "https://other.example.org/token")
    sessions.write(other)
    with pytest.raises(eodispatch.SignInRequired, match="other.example.org"):
        eodispatch.connect(demo.broker, interactive=True)


def test_no_token_is_sent_to_other_machines_by_http(demo: Demo) -> None:
    with pytest.raises(ValueError, match="https"):
        eodispatch.connect("http://dispatch.example.org", token="secret")


def test_what_is_no_broker(demo: Demo) -> None:
    with eodispatch.connect(demo.provider, token="secret") as c, pytest.raises(eodispatch.BrokerError) as caught:
        c.services()
    assert caught.value.code == "NOT_A_BROKER"


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        ("dispatch.example.org", "https://dispatch.example.org"),
        ("localhost:8080/", "http://localhost:8080"),
        ("https://Dispatch.example.org/apex/", "https://dispatch.example.org/apex"),
    ],
)
def test_addresses(given: str, parsed: str) -> None:
    assert addresses.parse(given) == parsed


@pytest.mark.parametrize("given", ["ftp://example.org", "https://user:word@example.org", "https://example.org?a=b", ""])
def test_addresses_that_are_refused(given: str) -> None:
    with pytest.raises(ValueError, match="address of a broker"):
        addresses.parse(given)
