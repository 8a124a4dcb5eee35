"""The real program's demonstration: a broker, an identity provider and platforms, on free ports."""

from __future__ import annotations

import builtins
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import eodispatch

PROGRAM = os.environ["EODISPATCH_PROGRAM"]
"""The program eodispatch."""

BOX = (5.05, 51.2, 5.15, 51.25)
REGION = (5.05, 51.05, 5.75, 51.45)


@dataclass(frozen=True)
class Demo:
    """The addresses of a demonstration that runs."""

    broker: str
    provider: str

    def token(self) -> str:
        """A new token of alice."""
        form = {"grant_type": "password", "client_id": "portal", "username": "alice", "password": "alice-password"}
        response = httpx.post(f"{self.provider}/realms/apex/protocol/openid-connect/token", data=form)
        return str(response.raise_for_status().json()["access_token"])


@pytest.fixture(scope="session")
def demo() -> Iterator[Demo]:
    """A demonstration that runs until the end of the tests."""
    with subprocess.Popen([PROGRAM, "demo", "--keep"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        found: dict[str, str] = {}
        for line in process.stdout:
            match = re.match(r"  (broker|identity provider) +(http://\S+)", line)
            if match:
                found[match[1]] = match[2]
            if line.startswith("The broker runs until"):  # after the runs of its own
                break
        reader = threading.Thread(target=process.stdout.read, daemon=True)  # so that it never waits for one
        reader.start()
        try:
            yield Demo(found["broker"], found["identity provider"])
        finally:
            process.terminate()
            process.wait(600)
            reader.join()


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, and no variables that name a broker."""
    folder = tmp_path_factory.mktemp("home")
    for name in ("EODISPATCH_BROKER", "EODISPATCH_TOKEN", "XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def c(demo: Demo) -> Iterator[eodispatch.Connection]:
    """A connection of alice."""
    with eodispatch.connect(demo.broker, token=demo.token()) as connection:
        yield connection


class Browser:
    """Stands for the user's browser: it opens the page that is shown, and chooses alice there."""

    def __init__(self, choice: str = "as=alice") -> None:
        self.choice = choice
        self.opened: list[str] = []

    def print(self, text: str, **_: Any) -> None:
        """Read what is shown to the user."""
        for address in re.findall(r"http://\S+/device\?user_code=\S+", text):
            self.opened.append(address)
            httpx.get(f"{address}&{self.choice}")


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Browser:
    """A browser that signs alice in."""
    found = Browser()
    monkeypatch.setattr(builtins, "print", found.print)
    return found


def command_line(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run the program at the command line."""
    environment = {**os.environ, "HOME": str(home)}
    return subprocess.run([PROGRAM, *arguments], env=environment, text=True, capture_output=True, timeout=600)
