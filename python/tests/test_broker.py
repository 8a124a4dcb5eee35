"""What a broker, or a server in its place, can do that the demonstration does not: a server of the test's own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import eodispatch
from eodispatch import downloads, sessions
from eodispatch.connection import Connection

Answers = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def server(answer: Answers) -> Iterator[str]:
    """The address of a server that runs until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)

        do_DELETE = do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


def send(request: BaseHTTPRequestHandler, status: int, document: Any, **headers: str) -> None:
    text = json.dumps(document).encode()
    request.send_response(status)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(text)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(text)


def connection(address: str) -> Connection:
    return eodispatch.connect(address, token="a-token")


def test_no_stream_follows_a_redirect() -> None:
    reached: list[str | None] = []

    def other(request: BaseHTTPRequestHandler) -> None:
        reached.append(request.headers.get("Authorization"))
        send(request, 404, {})

    with server(other) as elsewhere:
        with server(lambda request: send(request, 307, {}, Location="ws" + elsewhere.removeprefix("http"))) as broker:
            with connection(broker) as c:

                async def follow() -> None:
                    async for _ in eodispatch.Task(c, {"id": 1, "status": "running"}).events():
                        pass

                with pytest.raises(eodispatch.BrokerError):
                    asyncio.run(asyncio.wait_for(follow(), 60))
    assert not reached


def test_a_deletion_whose_response_was_lost() -> None:
    deleted: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        if not deleted:
            deleted.append(request.path)
            request.close_connection = True  # and no response
            return
        send(request, 404, {"error_code": "JOB_NOT_FOUND", "message": "There is no such job."})

    with server(answer) as broker, connection(broker) as c:
        job = eodispatch.Job(c, {"id": 4, "status": "running"})
        job.delete()
        with pytest.raises(eodispatch.NotFound):
            job.delete()


def test_what_others_wrote_does_not_steer_a_terminal() -> None:
    hostile = "no space\x1b]0;title\x07 \u202eleft\nsecond line"
    with server(lambda request: send(request, 409, {"error_code": "A", "message": hostile})) as broker:
        with connection(broker) as c:
            job = eodispatch.Job(c, {"id": 4, "status": "failed", "failure": hostile})
            with pytest.raises(eodispatch.Conflict) as refused:
                job.cancel()
    with pytest.raises(eodispatch.JobFailed) as failed:
        job._check()
    for error in (refused.value, failed.value, eodispatch.ResultsMissing({4: hostile})):
        assert not set("\x1b\x07\u202e") & set(str(error)) and "no space" in str(error) and "\nsecond" in str(error)


def test_a_budget_by_a_wrong_name() -> None:
    sent: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        sent.append(request.rfile.read(int(request.headers.get("Content-Length") or 0)).decode())
        send(request, 200, {"id": 4, "status": "running"})

    with server(answer) as broker, connection(broker) as c:
        task = eodispatch.Task(c, {"id": 4, "status": "running"})
        with pytest.raises(TypeError):
            task.resume(bugdet=80)  # type: ignore[call-arg]
        task.resume()
        task.resume(budget=None)
        task.resume(budget=80)
    assert [json.loads(body or "null") for body in sent] == [None, {"budget": None}, {"budget": 80}]


def test_the_name_of_a_sign_in_stands_for_its_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(lambda request: send(request, 200, {"user": {"name": "alice"}})) as broker:
        sessions.write(sessions.Session("production", broker, "i", "c", "t", grant={"access_token": "a"}))
        monkeypatch.setenv("EODISPATCH_BROKER", "production")  # as the command line takes it
        with eodispatch.connect() as c:
            assert (c.url, c.user()) == (broker, "alice")


class Results(eodispatch.Job):
    """A job with results of the test's own."""

    def read_items(self, missing: dict[int, str]) -> Iterator[dict[str, Any]]:
        for number, name in enumerate(self.raw["names"], 1):
            assets = {"a": {"href": "data:,1"}}
            yield {"id": str(number), "properties": {"name": name, "datetime": None}, "assets": assets}

    def fixed_values(self) -> dict[str, Any]:
        return {}


def test_names_that_differ_only_by_case(tmp_path: Path) -> None:
    with eodispatch.connect("http://127.0.0.1:1", token="a") as c:
        run = Results(c, {"id": 4, "status": "finished", "names": ["A", "a"]})
        with pytest.raises(ValueError, match="choose another layout"):
            run.download(tmp_path, "{name}.txt", progress=False)
        (only,) = Results(c, {**run.raw, "names": ["A"]}).download(tmp_path, "{name}.txt", progress=False)
        assert only.read_text() == "1"


def test_two_downloads_to_one_folder(tmp_path: Path) -> None:
    with eodispatch.connect("http://127.0.0.1:1", token="a") as c:
        run = Results(c, {"id": 4, "status": "finished", "names": ["A"]})
        with downloads.locked(tmp_path):
            with pytest.raises(eodispatch.DownloadFailed, match="another process downloads to"):
                run.download(tmp_path, progress=False)
        assert len(run.download(tmp_path, progress=False)) == 1


def test_results_of_which_no_time_is_known() -> None:
    extent = {"spatial": {"bbox": [[4, 50, 5, 51]]}, "temporal": {"interval": [[None, None]]}}
    with server(lambda request: send(request, 200, {"extent": extent, "assets": {}})) as broker:
        with connection(broker) as c:
            raw = {"id": 4, "status": "finished", "parameters": {}, "ended": "2026-01-02T03:04:05Z"}
            (item,) = eodispatch.Job(c, raw).items()
    assert item.datetime is None  # as in the Items of tasks
    assert item.properties["start_datetime"] == "1970-01-01T00:00:00Z"
    assert item.properties["end_datetime"] == "2026-01-02T03:04:05Z"


def test_a_wait_of_no_time_looks_once() -> None:
    with server(lambda request: send(request, 200, {"id": 4, "status": "finished"}, ETag='"1"')) as broker:
        with connection(broker) as c:
            assert eodispatch.Job(c, {"id": 4, "status": "running"}).wait(progress=False, timeout=0).ended


def test_a_sign_in_where_no_broker_is() -> None:
    with server(lambda request: send(request, 200, {"hello": "world"})) as other:
        with pytest.raises(eodispatch.BrokerError, match="does not answer as a broker"):
            eodispatch.connect(other, interactive=True)
