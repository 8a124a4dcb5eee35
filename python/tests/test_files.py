"""One file from a server that breaks off, changes, and refuses: a file server of a platform, not a broker."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from eodispatch import DownloadFailed
from eodispatch.files import File, fetch, safe_name

CONTENT = bytes(range(256)) * 4096


class Server(ThreadingHTTPServer):
    """Sends the content, as far as its settings let it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.version = '"1"'
        self.break_after = 0
        self.refuse: list[int] = []
        self.ranges: list[str | None] = []
        self.knows_if_range = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.tif"


class Handler(BaseHTTPRequestHandler):
    """Sends the content of the server."""

    server: Server

    def do_GET(self) -> None:
        server, asked = self.server, self.headers.get("Range")
        server.ranges.append(asked)
        assert "Authorization" not in self.headers
        if server.refuse:
            self.send_error(server.refuse.pop(0))
            return
        start = 0
        if asked and (self.headers.get("If-Range") == server.version or not server.knows_if_range):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        self.send_header("ETag", server.version)
        self.send_header("Content-Length", str(len(server.content) - start))
        self.end_headers()
        end = start + server.break_after if server.break_after else None
        server.break_after = 0
        self.wfile.write(server.content[start:end])

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that runs until the end of the test."""
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client() as client:
        yield client


def count(_: int) -> None:
    """Takes the numbers of bytes."""


def file_at(server: Server, folder: Path, renew: Callable[[], str] | None = None) -> File:
    return File(server.url, folder / "file.tif", renew or (lambda: server.url), len(CONTENT))


def test_a_transfer_that_breaks_off_goes_on(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    server.break_after = 300_000
    received: list[int] = []
    assert fetch(http, file_at(server, tmp_path), received.append)
    assert (tmp_path / "file.tif").read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-"] and sum(received) == len(CONTENT)
    assert [path.name for path in tmp_path.iterdir()] == ["file.tif"]


def test_a_download_goes_on_in_another_process(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "file.tif.part").write_bytes(CONTENT[:1000])
    (tmp_path / "file.tif.part.version").write_text(server.version)
    assert fetch(http, file_at(server, tmp_path), count)
    assert server.ranges == ["bytes=1000-"] and (tmp_path / "file.tif").read_bytes() == CONTENT
    assert not fetch(http, file_at(server, tmp_path), count)
    assert len(server.ranges) == 1


def test_a_file_that_has_changed_meanwhile(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "file.tif.part").write_bytes(b"x" * 1000)
    (tmp_path / "file.tif.part.version").write_text('"0"')
    assert fetch(http, file_at(server, tmp_path), count)
    assert (tmp_path / "file.tif").read_bytes() == CONTENT


def test_a_link_that_has_expired(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    server.refuse = [403]
    renewed: list[int] = []

    def renew() -> str:
        renewed.append(1)
        return server.url

    assert fetch(http, file_at(server, tmp_path, renew), count) and renewed == [1]


def test_a_link_that_stays_refused(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    server.refuse = [403, 403, 403]
    with pytest.raises(DownloadFailed, match="answers with 403"):
        fetch(http, file_at(server, tmp_path), count)
    assert not (tmp_path / "file.tif").exists()


def test_a_server_that_is_down_for_a_moment(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    server.refuse = [503]
    assert fetch(http, file_at(server, tmp_path), count)


def test_a_checksum(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    right, wrong = file_at(server, tmp_path), file_at(server, tmp_path)
    right.checksum = "1220" + hashlib.sha256(CONTENT).hexdigest()
    wrong.path, wrong.checksum = tmp_path / "wrong.tif", "1220" + hashlib.sha256(b"").hexdigest()
    assert fetch(http, right, count)
    with pytest.raises(DownloadFailed, match="checksum"):
        fetch(http, wrong, count)
    assert [path.name for path in tmp_path.iterdir()] == ["file.tif"]


def test_a_file_that_does_not_end(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    file = file_at(server, tmp_path)
    file.size = 1000
    with pytest.raises(DownloadFailed, match="length"):
        fetch(http, file, count)


def test_a_part_that_is_a_link(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "file.tif.part").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DownloadFailed, match="is a link"):
        fetch(http, file_at(server, tmp_path), count)
    assert not (tmp_path / "elsewhere").exists() and not server.ranges


@pytest.mark.parametrize("href", ["file:///etc/passwd", "data:text/plain;base64", "ftp://example.org/a", "no link"])
def test_links_that_lead_to_no_file(http: httpx.Client, tmp_path: Path, href: str) -> None:
    with pytest.raises(DownloadFailed, match="cannot be used"):
        fetch(http, File(href, tmp_path / "a", lambda: href), count)


def test_a_server_that_ignores_if_range(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "file.tif.part").write_bytes(b"x" * 1000)
    (tmp_path / "file.tif.part.version").write_text('"0"')
    server.knows_if_range = False
    file = file_at(server, tmp_path)
    file.size = None  # nothing but the version shows that the file is another
    assert fetch(http, file, count)
    assert (tmp_path / "file.tif").read_bytes() == CONTENT


def test_an_end_before_the_first_byte_of_another_version(
    server: Server, http: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file.tif.part").write_bytes(b"x" * 1000)
    (tmp_path / "file.tif.part.version").write_text('"0"')
    open_file = Path.open

    def end(path: Path, mode: str = "r", **settings: str) -> object:
        if path.suffix == ".part" and mode == "wb":
            raise KeyboardInterrupt
        return open_file(path, mode, **settings)  # type: ignore[call-overload]

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", end)
        with pytest.raises(KeyboardInterrupt):
            fetch(http, file_at(server, tmp_path), count)
    assert fetch(http, file_at(server, tmp_path), count)
    assert (tmp_path / "file.tif").read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["COM¹.tif", "con .txt", "conin$", "a\u202eb", "a\x9bb", "ab " * 60 + "c", "n" * 200])
def test_names_that_are_none_on_some_system(name: str) -> None:
    """As the command line makes them."""
    safe = safe_name(name)
    assert safe != name and safe.isprintable() and not safe.endswith((" ", "."))
    assert safe.startswith("_") or len(safe) >= min(len(name), 140)
