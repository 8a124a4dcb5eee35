"""The services that the broker offers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from .areas import Area
from .display import Table, html_table, printable
from .job import Job
from .parameters import Parameter, signature_of
from .request import Arguments, build, is_task
from .task import Task
from .times import Time
from .transport import new_key

if TYPE_CHECKING:
    from .connection import Connection

R = TypeVar("R")


class Call(Generic[R]):
    """A method of a service, which has the parameters of the service in its signature and its docstring."""

    def __init__(self, service: Service, method: Callable[..., R]) -> None:
        self._method = method
        self.__name__ = method.__name__.strip("_")
        self.__signature__ = signature_of(service.parameters, inspect.signature(method))
        lines = [inspect.getdoc(method) or "", "", "Parameters of the service", "-------------------------"]
        self.__doc__ = "\n".join([*lines, *(p.summary() for p in service.parameters)])

    def __call__(self, *arguments: Any, **named: Any) -> R:
        return self._method(*arguments, **named)

    def __repr__(self) -> str:
        return f"{self.__name__}{self.__signature__}"


@dataclass(frozen=True)
class Range:
    """The range in which an amount is expected."""

    low: float
    likely: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.likely:.4g}"
        return f"{self.low:.4g} to {self.high:.4g}, likely {self.likely:.4g}"


@dataclass(frozen=True)
class Estimate:
    """What a request is expected to cost, and how long it is expected to run, by your own finished jobs."""

    jobs: int
    costs: Range | None
    """Of all jobs together; None if it is not known."""
    unit: str
    cost_runs: int
    """How many of your finished jobs the costs are estimated from; 0: the provider states the price."""
    seconds: Range | None
    """Of one job; None if it is not known."""
    seconds_runs: int
    balance: str = ""
    """What you may still spend at the platform, with its unit; empty if that is not known."""
    warning: str = ""
    """Why the request may not be what you want, such as costs above the balance."""

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Estimate:
        """The estimate that the broker made."""
        costs, seconds, left = document.get("costs"), document.get("seconds"), document.get("balance")
        return cls(
            document["jobs"],
            Range(**costs) if costs else None,
            document.get("cost_unit", ""),
            document.get("cost_runs", 0),
            Range(**seconds) if seconds else None,
            document.get("seconds_runs", 0),
            f"{left['value']:.10g} {left.get('unit', '')}".strip() if left else "",
            document.get("warning", ""),
        )

    def _rows(self) -> list[tuple[str, str]]:
        costs = f"{self.costs} {self.unit}".strip() if self.costs else "not known"
        basis = f", by {self.cost_runs} finished jobs" if self.cost_runs else ", as the provider states"
        run_time = f"{self.seconds} s each" if self.seconds else "not known"
        rows = [("jobs", str(self.jobs)), ("costs", costs + (basis if self.costs else "")), ("run time", run_time)]
        rows += [("balance", self.balance), ("warning", self.warning)]
        return [row for row in rows if row[1]]

    def __str__(self) -> str:
        return printable("\n".join(f"{name:<8}  {value}" for name, value in self._rows()))

    def _repr_html_(self) -> str:
        return html_table(("Estimate", ""), self._rows())


class Service:
    """A service. `run` runs it, `estimate` says what that would cost; both have its parameters as arguments."""

    def __init__(self, connection: Connection, raw: Mapping[str, Any], reference: Mapping[str, Any]) -> None:
        self.connection = connection
        self.reference = reference
        """What names the service in requests."""
        self._raw = dict(raw)
        self._parameters: list[Parameter] | None = None
        if self._raw.get("parameters") is not None:
            self._describe()

    @property
    def id(self) -> str:
        """The name of the service."""
        return str(self._raw["id"])

    @property
    def title(self) -> str:
        """The title of the service."""
        return str(self._raw.get("title") or self.id)

    @property
    def summary(self) -> str:
        """The service in some sentences."""
        return str(self._raw.get("summary") or "")

    @property
    def description(self) -> str:
        """The service at length, in Markdown."""
        self._complete()
        return str(self._raw.get("description") or self.summary)

    @property
    def keywords(self) -> list[str]:
        """Keywords."""
        return list(self._raw.get("keywords") or ())

    @property
    def platforms(self) -> list[str]:
        """The platforms that offer the service."""
        homes = self._raw.get("homes") or [self._raw]
        return [str(home["platform"]) for home in homes if home.get("platform")]

    @property
    def label(self) -> str:
        """The protocol of its platform: openeo or ogc_api_process."""
        return str(self._raw.get("label") or "")

    @property
    def formats(self) -> list[str]:
        """The formats of its results."""
        self._complete()
        return [str(one["name"]) for one in self._raw.get("formats") or ()]

    @property
    def example(self) -> dict[str, Any] | None:
        """Parameters to try it with."""
        self._complete()
        return self._raw.get("example")

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters; none if they are not known now."""
        self._complete()
        return list(self._parameters or ())

    @property
    def run(self) -> Call[Job | Task]:
        """Run the service: a job or, with `grid`, `split` or `each`, a task of many jobs."""
        return Call(self, self._run)

    @property
    def estimate(self) -> Call[Estimate]:
        """Say what a run is expected to cost, and how long it takes. Nothing is submitted."""
        return Call(self, self._estimate)

    def _complete(self) -> None:
        """Read the description, of which lists have a part."""
        if self._parameters is None:
            self._raw.update(self.connection.transport.get("/services/" + quote(self.id, safe="")))
            self._describe()

    def _describe(self) -> None:
        self._parameters = [Parameter.parse(p) for p in self._raw.get("parameters") or ()]
        lines = [self.title, "", self._raw.get("description") or self.summary, "", "Parameters", "----------"]
        self.__doc__ = "\n".join([*lines, *(p.summary() for p in self._parameters)])

    def _run(
        self,
        area: Area | None = None,
        time: Time | None = None,
        *,
        grid: str | None = None,
        split: str | None = None,
        each: Mapping[str, Any] | None = None,
        zip: bool = False,
        key: str | None = None,
        budget: float | Mapping[str, Any] | None = None,
        trial: int | None = None,
        retries: int | None = None,
        max_duration: float | None = None,
        format: str | None = None,
        title: str | None = None,
        platform: str | None = None,
        also: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        note: str | None = None,
        options: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> Job | Task:
        """Run the service: a job or, with `grid`, `split` or `each`, a task of many jobs.

        area : fills the parameters that take an area: (west, south, east, north), shapely, GeoPandas, GeoJSON, a file
        time : fills the parameters that take a time: "2024-06", "2024-06-01/2024-07-01", or two dates
        grid : split the area by this grid, and run a job for each tile; `Connection.grids` lists the grids
        split : run a job for each part of the time: day, week, month, quarter, year, or a number of days such as P10D
        each : run a job for each value of a parameter: {"max_cloud_cover": [10, 30]}, {"spatial_extent": fields}, or
            with names {"temporal_extent": {"spring": "2024-03", "summer": "2024-06"}}
        zip : with several of these, job n has the n-th value of each, in place of all combinations
        key : a name of yours for this run: with the same key and arguments nothing runs twice within a day, and you
            get the same job or task again
        budget : what the jobs may cost together: 50, or {"amount": 50, "unit": "credits"}
        trial : run so many jobs first; `Task.resume` runs the others
        retries : how often a job is repeated after failures of its platform
        max_duration : cancel a job that runs longer, in seconds
        platform : of several platforms that offer the service, run at this one
        also : further services that do the same at other platforms: each job goes where it ends soonest
        options : further options of the request
        parameters : values of parameters by name, also of those whose names are no Python names
        """
        own = _options(options, budget=budget, trial=trial, retries=retries, max_duration=max_duration)
        given = Arguments(
            area, time, {**(parameters or {}), **values}, grid, split, each or {}, zip, title, format, own, platform,
            also, labels or {}, note,
        )  # fmt: skip
        body = build(self, given)
        for name in () if is_task(body) else ("budget", "trial"):
            if name in own:
                raise TypeError(f"{name} is for tasks: it needs grid, split or each")
        path = "/upscale_tasks" if is_task(body) else "/unit_jobs"
        made = self.connection.transport.post(path, body, key=key or new_key())
        return Task(self.connection, made) if is_task(body) else Job(self.connection, made)

    def _estimate(
        self,
        area: Area | None = None,
        time: Time | None = None,
        *,
        grid: str | None = None,
        split: str | None = None,
        each: Mapping[str, Any] | None = None,
        zip: bool = False,
        format: str | None = None,
        platform: str | None = None,
        also: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> Estimate:
        """Say what a run with these arguments is expected to cost, and how long it takes. Nothing is submitted."""
        given = Arguments(
            area, time, {**(parameters or {}), **values}, grid, split, each or {}, zip, None, format, options or {},
            platform, also, {}, None,
        )  # fmt: skip
        return Estimate.parse(self.connection.transport.post("/estimate", build(self, given)))

    def __repr__(self) -> str:
        return f"<Service {self.id}: {self.title}>"

    def _repr_html_(self) -> str:
        rows = [(p.name, p.type, "" if p.default is None else p.default, p.description) for p in self.parameters]
        return html_table((self.title, self.id), [("", self.summary)]) + html_table(
            ("Parameter", "Type", "Default", "Description"), rows
        )


class Services(Table[Service]):
    """Services, shown as a table."""

    columns = ("id", "title", "platforms", "keywords")

    def row(self, element: Service) -> Sequence[Any]:
        """The cells of a service."""
        return element.id, element.title, ", ".join(element.platforms), ", ".join(element.keywords)


def _options(further: Mapping[str, Any] | None, **named: Any) -> dict[str, Any]:
    return {**(further or {}), **{name: value for name, value in named.items() if value is not None}}
