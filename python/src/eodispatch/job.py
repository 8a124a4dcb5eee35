"""One job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import areas
from .display import Table, html_table
from .errors import EodispatchError, JobFailed
from .runs import Run

_UNKNOWN_SINCE = "1970-01-01T00:00:00Z"


class Job(Run):
    """One job."""

    kind = "job"
    layout = "{file}"

    @property
    def path(self) -> str:
        """Where the broker describes it."""
        return f"/unit_jobs/{self.id}"

    @property
    def name(self) -> str:
        """The name of its values in its task, such as the id of its tile."""
        return str(self.raw.get("name") or "")

    @property
    def platform(self) -> str:
        """The platform where it runs."""
        return str(self.raw.get("platform") or "")

    @property
    def failure(self) -> str:
        """Why it failed; empty if it did not."""
        return str(self.raw.get("failure") or "")

    @property
    def costs(self) -> float | None:
        """What it cost, in `cost_unit`; None if that is not known."""
        return self.raw.get("costs")

    @property
    def cost_unit(self) -> str:
        """The unit of the costs, in the words of the platform."""
        return str(self.raw.get("cost_unit") or "")

    @property
    def task_id(self) -> int | None:
        """The number of its task; None if it belongs to none."""
        return self.raw.get("task_id")

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the request."""
        if "parameters" not in self.raw:
            self.refresh()
        return dict(self.raw.get("parameters") or {})

    def cancel(self) -> Job:
        """Cancel it."""
        self.raw = dict(self.connection.transport.post(self.path + "/cancel"))
        return self

    def delete(self) -> None:
        """Cancel it if it runs, and remove it from the lists."""
        self.connection.transport.delete(self.path)

    def logs(self) -> list[dict[str, Any]]:
        """What the platform logged."""
        return list(self.connection.transport.pages(self.path + "/logs", "logs", {"limit": 1000}))

    def collection(self) -> Any:
        """The results as a STAC Collection, as the platform describes them; None before there are any."""
        import pystac

        document = self.connection.transport.get(self.path + "/results")
        return None if document is None else pystac.Collection.from_dict(document)

    def jobs(self) -> Jobs:
        """Itself."""
        return Jobs([self])

    def read_items(self, missing: dict[int, str]) -> Iterator[dict[str, Any]]:
        """Its results as an Item."""
        if self.status != "finished" and self.refresh().status != "finished":
            if self.ended:
                self._check()
            raise EodispatchError(f"{self} has no results yet: {self.state()}")
        yield self.read_item(self.id)

    def read_item(self, job: int) -> dict[str, Any]:
        """Its results as an Item, with new links."""
        found = self.connection.transport.get(self.path + "/results") or {}
        box = (((found.get("extent") or {}).get("spatial") or {}).get("bbox") or [None])[0]
        start, end = (((found.get("extent") or {}).get("temporal") or {}).get("interval") or [(None, None)])[0]
        times = {"datetime": start or end}
        if not (start or end):  # as in the Item of a task's job
            times.update({"start_datetime": _UNKNOWN_SINCE, "end_datetime": self.raw.get("ended") or _UNKNOWN_SINCE})
        return {
            "type": "Feature",
            "stac_version": "1.0.0",
            "id": str(self.id),
            "bbox": box,
            "geometry": _rectangle(box) if box else None,
            "properties": {**times, "title": self.title},
            "links": [],
            "assets": found.get("assets") or {},
        }

    def geometries(self) -> dict[int, Any]:
        """Its area; None if no parameter has one."""
        for value in self.parameters.values():
            try:
                if isinstance(value, Mapping):
                    return {self.id: areas.to_geojson(value.get("bbox") or value)}
            except (ValueError, TypeError, KeyError):
                continue  # another parameter
        return {self.id: None}

    def values_by_job(self) -> dict[int, dict[str, Any]]:
        """Nothing differs."""
        return {self.id: {}}

    def fixed_values(self) -> dict[str, Any]:
        """Its parameters."""
        return self.parameters

    def _check(self) -> None:
        if self.status != "finished":
            raise JobFailed(self, f"{self} {self.status}: {self.failure}" if self.failure else f"{self} {self.status}")

    def _repr_html_(self) -> str:
        rows = [("status", self.state()), ("platform", self.platform), ("attention", self.attention)]
        rows += [("failure", self.failure), ("costs", "" if self.costs is None else f"{self.costs} {self.cost_unit}")]
        return html_table((str(self), self.title), [row for row in rows if row[1]])


class Jobs(Table[Job]):
    """Jobs, shown as a table."""

    columns = ("id", "title", "name", "status", "platform", "costs", "failure")

    def row(self, element: Job) -> Sequence[Any]:
        """The cells of a job."""
        costs = "" if element.costs is None else f"{element.costs:g} {element.cost_unit}"
        return (
            element.id, element.title, element.name, element.state(), element.platform, costs, element.failure,
        )  # fmt: skip


def _rectangle(box: Sequence[float]) -> Mapping[str, Any]:
    west, south, east, north = box if len(box) == 4 else (box[0], box[1], box[3], box[4])
    return {"type": "Polygon", "coordinates": areas.rectangle(west, south, east, north)}
