"""Jobs and tasks: submitted, followed, and changed."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import eodispatch

from eodispatch.runs import FILTERS

from .conftest import BOX, REGION

SQUARES = {"west": (5, 51, 5.1, 51.1), "east": (5.1, 51, 5.2, 51.1)}


def run_task(c: eodispatch.Connection, **given: object) -> eodispatch.Task:
    arguments = {"each": {"spatial_extent": SQUARES}, **given}
    task = c.service("ndvi_composite").run(time="2024-06", **arguments)
    assert isinstance(task, eodispatch.Task)
    return task


def test_a_job(c: eodispatch.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    job = c.service("ndvi_composite").run(BOX, "2024-06", max_cloud_cover=50, labels={"field": "a"}, note="first")
    assert isinstance(job, eodispatch.Job) and not job.ended
    assert job.wait(progress=True) is job
    assert job.status == "finished" and job.costs == 2 and job.cost_unit == "credits" and job.labels == {"field": "a"}
    assert f"job-{job.id} 100%" in shown.getvalue() and "finished" in shown.getvalue()
    assert job.parameters["max_cloud_cover"] == 50
    assert job.parameters["temporal_extent"] == ["2024-06-01", "2024-07-01"]
    assert job.logs()
    assert list(job.collection().assets) == ["openEO.tif"]
    assert c.job("@latest").id == c.job(f"job-{job.id}").id == job.id
    for labels in ("field=a", {"field": "a"}):
        assert [one.id for one in c.jobs(labels=labels)] == [job.id]
    assert "finished" in repr(job) and "credits" in job._repr_html_()
    job.delete()
    with pytest.raises(eodispatch.NotFound):
        job.refresh()


def test_no_bar_where_nobody_looks(c: eodispatch.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    c.service("ndvi_scene").run(BOX).wait()
    assert shown.getvalue() == ""


def test_the_same_key_is_the_same_task(c: eodispatch.Connection) -> None:
    first, again = run_task(c, key="once"), run_task(c, key="once")
    assert first.id == again.id
    with pytest.raises(eodispatch.BrokerError):
        run_task(c, key="once", title="another request")
    assert run_task(c).id != first.id
    one = c.service("ndvi_scene").run(BOX, key="once more")
    assert c.service("ndvi_scene").run(BOX, key="once more").id == one.id


def test_a_grid(c: eodispatch.Connection) -> None:
    task = c.service("ndvi_composite").run(REGION, "2024-06", grid="20x20km")
    assert isinstance(task, eodispatch.Task) and sum(task.counts.values()) == 14
    task.wait(timeout=600)
    assert task.counts == {"finished": 14} and task.progress == 100
    assert c.task("@latest").id == task.id
    assert all(job.name.startswith("20x20km-") for job in task.jobs())
    assert "14 finished" in task._repr_html_() and str(task.id) in repr(c.tasks())


def test_several_dimensions(c: eodispatch.Connection) -> None:
    with pytest.warns(UserWarning, match="takes boxes: in place of 1 of 1 areas") as warned:
        triangle = {"type": "Polygon", "coordinates": [[[5, 51], [5.1, 51], [5, 51.1], [5, 51]]]}
        task = run_task(c, each={"spatial_extent": {"t": triangle}, "max_cloud_cover": {"few": 10, "many": 90}})
    assert sum(task.counts.values()) == 2 and warned[0].filename == __file__
    product = c.service("ndvi_composite").run(
        time="2024-01-01/2024-04-01", split="month", each={"spatial_extent": SQUARES}
    )
    assert sum(product.counts.values()) == 6
    months = {"m1": "2024-01", "m2": "2024-02"}
    zipped = c.service("ndvi_composite").run(each={"spatial_extent": SQUARES, "temporal_extent": months}, zip=True)
    assert sum(zipped.counts.values()) == 2
    assert [d["name"] for d in zipped.dimensions()] == ["spatial_extent", "temporal_extent"]
    for task in (product, zipped):
        task.cancel()


def test_wait_returns_when_the_trial_has_ended(c: eodispatch.Connection) -> None:
    task = run_task(c, trial=1)
    task.wait(timeout=600)
    assert task.waits_for_you and task.paused and task.attention
    assert (task.counts["finished"], task.counts["created"]) == (1, 1)
    task.resume()
    task.wait(timeout=600)
    assert task.counts == {"finished": 2} and not task.waits_for_you


def test_pause_resume_and_cancel(c: eodispatch.Connection) -> None:
    task = run_task(c, each={"spatial_extent": [(5 + i / 100, 51, 5.01 + i / 100, 51.01) for i in range(30)]})
    assert task.pause().paused
    with pytest.raises(TimeoutError, match="has not ended within"):
        task.wait(timeout=1.5)
    assert not task.resume().paused
    waiting = [job.id for job in task.jobs(status="created")]
    task.cancel(jobs=waiting[:1])
    task.cancel()
    task.wait(timeout=600)
    assert task.counts["canceled"] > 10
    with pytest.raises(eodispatch.Conflict):
        task.pause()
    task.delete()


def test_a_filter_or_a_choice_that_there_is_not_changes_and_lists_nothing(c: eodispatch.Connection) -> None:
    task = run_task(c, each={"spatial_extent": [(5 + i / 100, 51, 5.01 + i / 100, 51.01) for i in range(30)]})
    task.pause()
    for listed in (c.jobs, c.tasks, task.jobs):
        with pytest.raises(TypeError, match="no filter 'label'; there are: .*labels"):
            listed(label="project=flanders")
    for change in (task.cancel, task.retry):
        with pytest.raises(TypeError, match="job"):
            change(job=3)
        with pytest.raises(eodispatch.InvalidRequest, match="at least 1 item"):
            change(jobs=[])
    waiting = task.jobs(status="created")  # of which the first may be on their way
    assert task.cancel(jobs=waiting[-2:]).counts["canceled"] == 2
    task.cancel(status="created")
    task.wait(timeout=600)  # what is on its way shows created until it is known whether the platform has it
    assert "created" not in task.counts
    task.delete()


def test_the_filters_are_those_of_the_broker(c: eodispatch.Connection) -> None:
    paths = c.transport.get("/openapi.json")["paths"]
    for path in ("/jobs_status", "/upscale_tasks/{task_id}"):
        query = {p["name"] for p in paths[path]["get"]["parameters"] if p["in"] == "query"}
        assert query - set(FILTERS) <= {"filter", "wait", "cursor", "limit", "parameters"}
        assert set(FILTERS) - query <= {"sort"}


def test_a_budget(c: eodispatch.Connection) -> None:
    task = run_task(c, budget=2)
    task.wait(timeout=600)
    assert task.waits_for_you and task.budget == {"amount": 2, "unit": "credits", "spent": 2, "expected": 0}
    assert task.resume(budget=None).wait(timeout=600).counts == {"finished": 2}


def test_failures_and_retry(c: eodispatch.Connection) -> None:
    task = c.process("fail", "simulated-ogc").run(each={"bbox": SQUARES})
    task.wait(timeout=600)
    assert (task.status, task.counts) == ("failed", {"failed": 2})
    query = {"status": ["failed", "finished"], "limit": 1}
    assert len(list(c.transport.pages(task.path, "jobs", query))) == 2  # in two pages
    failed = task.jobs(status="failed")
    assert [job.name for job in failed] == ["west", "east"] and "simulated failure" in failed[0].failure
    with pytest.raises(eodispatch.JobFailed, match="simulated failure") as caught:
        failed[0].wait()
    assert caught.value.run is failed[0]
    assert task.retry(jobs=[failed[1].id]).counts["failed"] == 1
    pytest.importorskip("pandas")
    failures = task.failures()
    assert list(failures.columns) == ["job", "name", "reason", "attempts", "platform"]
    assert list(failures["name"]) == ["west"] and "simulated failure" in failures["reason"][0]
    task.cancel()


def test_events(c: eodispatch.Connection) -> None:
    task = run_task(c)

    async def follow() -> list[eodispatch.Event]:
        return [event async for event in task.events()]

    events = asyncio.run(asyncio.wait_for(follow(), 600))
    assert events[0].full and len(events[0].jobs) == 2 and not events[-1].full
    assert task.status == events[-1].status == "finished" and events[-1].counts == {"finished": 2}
    assert {job.name for event in events for job in event.jobs} == {"west", "east"}


def test_events_of_a_task_that_is_deleted(c: eodispatch.Connection) -> None:
    task = run_task(c)
    task.pause()

    async def follow() -> None:
        async for event in task.events():
            if event.full:
                await asyncio.to_thread(task.delete)

    with pytest.raises(eodispatch.NotFound):
        asyncio.run(asyncio.wait_for(follow(), 600))


def test_events_of_a_task_that_there_is_not(c: eodispatch.Connection) -> None:
    task = eodispatch.Task(c, {"id": 999999, "status": "created"})

    async def follow() -> None:
        async for _ in task.events():
            pass

    with pytest.raises(eodispatch.NotFound):
        asyncio.run(asyncio.wait_for(follow(), 600))


@pytest.mark.parametrize("status", [0, 502, 422])
def test_a_lost_response_names_the_key_to_repeat_the_run_with(status: int) -> None:
    keys = set()

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.add(self.headers["Idempotency-Key"])
            if status:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b'{"error_code": "VALIDATION_ERROR"}' if status == 422 else b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with eodispatch.connect(f"http://127.0.0.1:{server.server_port}", token="any") as c:
            with pytest.raises(eodispatch.EodispatchError) as refused:
                c.transport.post("/unit_jobs", {}, key="mine")
        server.shutdown()
    assert keys == {"mine"} and ("key='mine'" in str(refused.value)) == (status != 422)


def test_a_broker_that_is_not_there() -> None:
    with eodispatch.connect("http://127.0.0.1:9", token="any") as c, pytest.raises(eodispatch.Unreachable):
        c.transport.post("/unit_jobs", {})
