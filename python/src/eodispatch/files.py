"""The download of one file, which goes on where an earlier one ended."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate
from pathlib import Path
from time import sleep
from urllib.parse import unquote

import httpx

from .errors import DownloadFailed

_FRUITLESS = 5
"""Attempts in a row that bring nothing, after which a download fails."""

_HASHES = {"1220": "sha256", "1340": "sha512", "1114": "sha1", "d50110": "md5"}
"""The algorithms of multihashes, by their first bytes."""

_EXPIRED = frozenset({400, 401, 403, 404, 410})
"""Statuses that may mean that a signed link has expired."""


@dataclass
class File:
    """A file to download."""

    href: str
    path: Path
    renew: Callable[[], str]
    """Returns a new link when the old one has expired."""
    size: int | None = None
    checksum: str = ""
    """A multihash in hexadecimal, as file:checksum of STAC."""

    @property
    def complete(self) -> bool:
        """Whether the whole file is there."""
        return self.path.is_file() and self.size in (None, self.path.stat().st_size)


class _Broken(Exception):
    """An attempt that the next one can make good."""


def fetch(http: httpx.Client, file: File, received: Callable[[int], None]) -> bool:
    """Download a file, without any token of the broker. False: it is there already.

    It is written to PATH.part, and renamed when its length and its checksum are right.
    """
    if file.complete:
        return False
    file.path.parent.mkdir(parents=True, exist_ok=True)
    part, fruitless, renewed, corrupt = Path(f"{file.path}.part"), 0, 0, 0
    if part.is_symlink() or _version_file(part).is_symlink():
        raise DownloadFailed(f"{part} is a link, by which others could have the file written elsewhere")
    while True:
        before = _size(part)
        try:
            if file.href[:5].lower() == "data:":
                part.write_bytes(content_of(file.href))
            else:
                _attempt(http, file, part, received)
            if _is_right(file, part):
                break
            _drop(part)
            corrupt += 1
            if corrupt > 1:
                raise DownloadFailed(f"{file.path.name}: the file does not have the length or checksum that it should")
            continue
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            if status in _EXPIRED and renewed < 2:
                renewed += 1
                file.href = file.renew()
                continue
            if status < 500 and status not in (408, 429):
                raise DownloadFailed(f"{file.path.name}: {error.request.url.host} answers with {status}") from error
            failure: Exception = error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, ValueError) as error:
            raise DownloadFailed(f"{file.path.name}: the link to the file cannot be used") from error
        except (httpx.TransportError, _Broken) as error:
            failure = error
        if _size(part) > before:
            fruitless = renewed = 0
            continue
        fruitless += 1
        if fruitless >= _FRUITLESS:
            raise DownloadFailed(f"{file.path.name}: {failure or type(failure).__name__}") from failure
        sleep(0.5 * 2**fruitless)
    os.replace(part, file.path)
    _version_file(part).unlink(missing_ok=True)
    return True


def content_of(href: str) -> bytes:
    """The content of a data URI (RFC 2397)."""
    media, comma, text = href.partition(",")
    if not comma:
        raise ValueError("the link is a data address that cannot be decoded")
    plain = unquote(text)
    return base64.b64decode(plain + "==") if media.lower().endswith(";base64") else plain.encode()


def _attempt(http: httpx.Client, file: File, part: Path, received: Callable[[int], None]) -> None:
    """Request what is missing and append it to the part."""
    have, version = _size(part), _version_of(part)
    headers = {"Accept-Encoding": "identity"}  # ranges of a compressed file are of no use
    if have and version:
        headers.update({"Range": f"bytes={have}-", "If-Range": version})
    with http.stream("GET", file.href, headers=headers) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            _, _, total = response.headers.get("Content-Range", "").partition("/")
            if total == str(have):
                return
            _drop(part)
            raise _Broken("the server has another file than before")
        response.raise_for_status()
        if response.status_code != httpx.codes.PARTIAL_CONTENT:
            received(-have)
            have = 0
            _drop(part)  # before the version: it is never one of another version
            _keep_version(part, response)
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-") or _differs(version, response):
            _drop(part)
            raise _Broken("the server sent another part of the file than requested")
        expected = int(response.headers.get("Content-Length") or 0) + have
        with part.open("ab" if have else "wb") as target:
            for piece in response.iter_raw():
                target.write(piece)
                received(len(piece))
                if file.size and target.tell() > file.size:
                    return  # the rest, which may have no end, is not received
    if expected > have and _size(part) < expected:
        raise _Broken(f"the transfer broke off after {_size(part)} of {expected} bytes")


def _version_file(part: Path) -> Path:
    return Path(f"{part}.version")


def _version_of(part: Path) -> str:
    try:
        return _version_file(part).read_text("utf-8")
    except FileNotFoundError:
        return ""  # nothing says that the rest would be of the same file


def _differs(version: str, response: httpx.Response) -> bool:
    """Whether a response names another version than that of the part, as of a server that ignores If-Range."""
    now = response.headers.get("ETag", "").removeprefix("W/")
    if parsedate(version):
        now = response.headers.get("Last-Modified", "")
    return now not in ("", version)


def _keep_version(part: Path, response: httpx.Response) -> None:
    """Keep the server's name for the version of the file."""
    version = response.headers.get("ETag", "")
    if not version or version.startswith("W/"):
        version = response.headers.get("Last-Modified", "")
    if version:
        _version_file(part).write_text(version, "utf-8")
    else:
        _version_file(part).unlink(missing_ok=True)


def _drop(part: Path) -> None:
    part.unlink(missing_ok=True)
    _version_file(part).unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_right(file: File, part: Path) -> bool:
    if file.size not in (None, _size(part)):
        return False
    for prefix, name in _HASHES.items():
        want = file.checksum.lower().removeprefix(prefix)
        digest = hashlib.new(name, usedforsecurity=False)
        if file.checksum.lower().startswith(prefix) and len(want) == 2 * digest.digest_size:
            with part.open("rb") as source:
                while piece := source.read(1 << 20):
                    digest.update(piece)
            return digest.hexdigest() == want
    return True


_FORBIDDEN = frozenset('/\\:*?"<>|')
_DEVICES = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(\..*)?|.*\.part(\.version)?", re.IGNORECASE
)
_LONGEST = 148
"""Bytes of a name, so that suffixes still fit."""


def safe_name(name: str) -> str:
    """A name that is one part of a path on every system."""
    safe = "".join("_" if c in _FORBIDDEN or not c.isprintable() else c for c in name).strip(". ")
    if len(safe.encode()) > _LONGEST:
        stem, dot, extension = safe.rpartition(".")
        end = (dot + extension).encode() if dot and len(extension.encode()) < 20 else b""
        stem = (stem if end else safe).encode()[: _LONGEST - len(end)].decode(errors="ignore")
        safe = (stem + end.decode()).rstrip(". ")
    return f"_{safe}_" if not safe or _DEVICES.fullmatch(safe) else safe
