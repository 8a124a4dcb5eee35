"""A task: one request with a job for each value."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from . import events
from .display import Table, html_table
from .job import Job, Jobs
from .runs import FINAL, Run, query_of

_OWNER_DECIDES = frozenset({"trial_ended", "budget_reached", "budget_unusable"})


class Task(Run):
    """A task: a job for each tile or value."""

    kind = "task"
    layout = "{job}/{file}"

    @property
    def path(self) -> str:
        """Where the broker describes it."""
        return f"/upscale_tasks/{self.id}"

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs have each status."""
        return dict(self.raw.get("counts") or {})

    @property
    def paused(self) -> bool:
        """Whether jobs that wait are not submitted."""
        return bool(self.raw.get("paused"))

    @property
    def budget(self) -> dict[str, Any] | None:
        """The budget: amount, unit, what is spent, and what is expected of jobs whose costs are not known yet."""
        return self.raw.get("budget")

    @property
    def waits_for_you(self) -> bool:
        """Whether the rest waits until you `resume` or `cancel` it, and none of its jobs runs any more."""
        code = (self.raw.get("attention") or {}).get("code")
        if not self.paused or code not in _OWNER_DECIDES:
            return False
        waiting = self.counts.get("created", 0)
        rest = self.raw.get("rest")
        if rest:  # the others of them are being submitted
            waiting = min(waiting, int(rest["jobs"]))
        return waiting + sum(self.counts.get(status, 0) for status in FINAL) == sum(self.counts.values())

    def jobs(self, **filters: Any) -> Jobs:
        """Its jobs.

        filters : status="failed" or a list of statuses, platform, labels, title, service, created_after, created_before
        """
        query = {**query_of(filters), "parameters": "false"}
        found = self.connection.transport.pages(self.path, "jobs", query)
        return Jobs(Job(self.connection, raw) for raw in found)

    def cancel(self, *, jobs: Sequence[int | Job] | None = None, status: str | Sequence[str] | None = None) -> Task:
        """Cancel what has not ended, or some of it: jobs=[17, 18], or status="created"."""
        return self._change("cancel", _choice(jobs, status))

    def retry(self, *, jobs: Sequence[int | Job] | None = None, status: str | Sequence[str] | None = None) -> Task:
        """Run the jobs that failed again, or some of them: jobs=[17, 18]."""
        return self._change("retry", _choice(jobs, status))

    def pause(self) -> Task:
        """Submit no more of its jobs until it is resumed. Those that were submitted go on."""
        return self._change("pause", None)

    def resume(self, *, budget: Any = ...) -> Task:
        """End a pause or a trial. budget=80 gives it a new budget, budget=None none."""
        return self._change("resume", None if budget is ... else {"budget": budget})

    def delete(self) -> None:
        """Cancel what runs, and remove the task from the lists."""
        self.connection.transport.delete(self.path)

    def dimensions(self) -> list[dict[str, Any]]:
        """The progress by each dimension: its values with their status, counts and jobs."""
        found: list[dict[str, Any]] = self.connection.transport.get(self.path + "/dimensions")["dimensions"]
        return found

    def platforms(self) -> list[dict[str, Any]]:
        """The progress by platform."""
        found: list[dict[str, Any]] = self.connection.transport.get(self.path + "/platforms")["platforms"]
        return found

    def collection(self) -> Any:
        """The results as a STAC Collection, without its Items."""
        import pystac

        return pystac.Collection.from_dict(self.connection.transport.get(self.path + "/results"))

    def events(self) -> AsyncIterator[events.Event]:
        """What changes, as it changes, until the end: `async for event in task.events()`."""
        return events.of_task(self)

    def read_items(self, missing: dict[int, str]) -> Iterator[dict[str, Any]]:
        """The Items of the finished jobs, in the order in which they finished."""
        query: dict[str, Any] | None = {"limit": 50}
        while query is not None:
            page = self.connection.transport.get(self.path + "/results/items", query)
            yield from page["features"]
            missing.update((m["id"], m.get("message", "")) for m in page.get("eodispatch:missing") or ())
            following = [link["href"] for link in page.get("links", ()) if link.get("rel") == "next"]
            query = dict(parse_qs(urlsplit(following[0]).query)) if following else None

    def read_item(self, job: int) -> dict[str, Any]:
        """The Item of one job, with new links."""
        document: dict[str, Any] = self.connection.transport.get(f"{self.path}/results/items/{job}")
        return document

    def geometries(self) -> dict[int, Any]:
        """The tile of each job; None if it has none."""
        found = self.connection.transport.get(self.path + "/tiles")
        return {int(feature["id"]): feature["geometry"] for feature in found["features"]}

    def values_by_job(self) -> dict[int, dict[str, Any]]:
        """The values of the dimensions by their names, for each job."""
        values: dict[int, dict[str, Any]] = {}
        for dimension in self.dimensions():
            for value in dimension["values"]:
                for job in value.get("jobs") or ():
                    values.setdefault(job, {})[dimension["name"]] = value.get("value")
        return values

    def fixed_values(self) -> dict[str, Any]:
        """The values of the parameters that all jobs have."""
        page = self.connection.transport.get(self.path, {"limit": 1, "parameters": "true"})
        parameters = dict(page["jobs"][0].get("parameters") or {}) if page.get("jobs") else {}
        varying = {dimension["name"] for dimension in self.dimensions()}
        return {name: value for name, value in parameters.items() if name not in varying}

    def _summary(self) -> dict[str, Any]:
        return {"limit": 1, "parameters": "false"}

    def _change(self, action: str, body: Mapping[str, Any] | None) -> Task:
        self.raw = dict(self.connection.transport.post(f"{self.path}/{action}", body))
        return self

    def state(self) -> str:
        """Its status in words, with the numbers of its jobs."""
        counts = ", ".join(f"{number} {status}" for status, number in self.counts.items() if number)
        return f"{self.status}: {counts}" + (", paused" if self.paused else "")

    def _repr_html_(self) -> str:
        spent = f"{self.budget['spent']} of {self.budget['amount']} {self.budget['unit']}" if self.budget else ""
        rows = [("status", self.state()), ("progress", f"{self.progress:.0f} %"), ("attention", self.attention)]
        rows += [("budget", spent)]
        return html_table((str(self), self.title), [row for row in rows if row[1]])


def _choice(jobs: Sequence[int | Job] | None, status: str | Sequence[str] | None) -> dict[str, Any] | None:
    """Which jobs of a task to change; None: all."""
    choice: dict[str, Any] = {}
    if jobs is not None:
        choice["jobs"] = [job.id if isinstance(job, Job) else job for job in jobs]
    if status is not None:
        choice["status"] = [status] if isinstance(status, str) else list(status)
    return choice or None


class Tasks(Table[Task]):
    """Tasks, shown as a table."""

    columns = ("id", "title", "status", "progress")

    def row(self, element: Task) -> Sequence[Any]:
        """The cells of a task."""
        return element.id, element.title, element.state(), f"{element.progress:.0f} %"
