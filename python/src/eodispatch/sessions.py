"""The sign-ins of this user on this machine, which the command line eodispatch uses, too.

Each is a file that only its owner can read, in the folder and the format of the command line.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import locks
from .addresses import is_secure

_LOCK_WITHIN = 60.0


@dataclass
class Session:
    """A sign-in at a broker."""

    name: str
    url: str
    issuer: str
    client_id: str
    token_endpoint: str
    revocation_endpoint: str = ""
    grant: dict[str, Any] = field(default_factory=dict)
    """access_token, token_type, refresh_token, and expiry as a text with a time zone."""


def folder() -> Path:
    """The folder of the sign-ins."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):
        return Path(state) / "eodispatch"
    local = os.environ.get("LOCALAPPDATA", "")
    if sys.platform == "win32" and local:
        return Path(local) / "eodispatch"
    return Path.home() / ".local" / "state" / "eodispatch"


def name_of(address: str) -> str:
    """The name of the sign-in at a broker: its host and port."""
    scheme, _, host = address.partition("://")
    if scheme == "http" and not is_secure(address):
        host = "insecure." + host  # so that it does not take the place of the one by https
    return re.sub(r"[^A-Za-z0-9.-]+", "_", host).strip("_.-")


def read(name: str) -> Session | None:
    """A sign-in by its name; None if there is none that can be read."""
    try:
        document = json.loads((folder() / f"{name}.json").read_text("utf-8"))
        return Session(**{key: document[key] for key in Session.__dataclass_fields__ if key in document})
    except (OSError, ValueError, TypeError):
        return None


def named(text: str) -> Session | None:
    """The sign-in that has this name, as the command line takes it; None if it is no name of one."""
    return read(text) if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text) else None


def every() -> list[Session]:
    """All sign-ins that can be read."""
    found = (read(path.stem) for path in sorted(folder().glob("*.json")))
    return [session for session in found if session]


def find(address: str) -> Session | None:
    """The sign-in at a broker."""
    return next((session for session in every() if session.url == address), None)


def current() -> str | None:
    """The address of the broker of the last sign-in."""
    try:
        name, _, address = (folder() / "current").read_text("utf-8").strip().partition("\n")
    except OSError:
        return None
    session = read(name)
    return session.url if session else address or None


def write(session: Session) -> None:
    """Store a sign-in, in whole or not at all."""
    _replace(folder() / f"{session.name}.json", json.dumps({k: v for k, v in vars(session).items() if v}))


def choose(session: Session) -> None:
    """Make a sign-in the one that is used where no broker is named."""
    _replace(folder() / "current", f"{session.name}\n{session.url}\n")


def forget(session: Session) -> None:
    """Delete a sign-in."""
    (folder() / f"{session.name}.json").unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Keep other processes, the command line among them, from changing a sign-in."""
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    with locks.held(folder() / f"{name}.lock", 0o600, _LOCK_WITHIN):
        yield
