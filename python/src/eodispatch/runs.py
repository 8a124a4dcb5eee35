"""What jobs and tasks have in common."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import downloads, rasters, tables
from .errors import BrokerError, ResultsMissing, Unreachable
from .progress import Bar
from .times import to_datetime

if TYPE_CHECKING:
    import pystac

    from .connection import Connection
    from .job import Job

FINAL = frozenset({"finished", "failed", "canceled"})
"""The statuses of what has ended."""

FILTERS = (
    "status", "platform", "labels", "title", "service", "created_after", "created_before", "since", "sort",
)  # fmt: skip
"""What lists of jobs and tasks can be filtered by."""

_POLL = 30.0
_OUTAGE = 900.0
"""Seconds for which an outage of the broker is waited through."""

Self = TypeVar("Self", bound="Run")


def query_of(filters: Mapping[str, Any]) -> dict[str, Any]:
    """The query of a list. The broker ignores names that it does not know, and would list everything."""
    unknown = [name for name in filters if name not in FILTERS]
    if unknown:
        raise TypeError(f"there is no filter {', '.join(map(repr, unknown))}; there are: {', '.join(FILTERS)}")
    labels = filters.get("labels")
    if isinstance(labels, Mapping):
        return {**filters, "labels": [f"{name}={value}" for name, value in labels.items()]}
    return dict(filters)


class Run(ABC):
    """A job or a task, as the broker last described it. `refresh` reads it again; `wait` follows it to its end."""

    kind = ""
    layout = ""
    """The layout of a download that names none."""

    def __init__(self, connection: Connection, raw: Mapping[str, Any]) -> None:
        self.connection = connection
        self.raw = dict(raw)
        """The description by the broker; docs/ and /openapi.json of the broker describe its members."""

    @property
    @abstractmethod
    def path(self) -> str:
        """Where the broker describes it."""

    @property
    def id(self) -> int:
        """The number."""
        return int(self.raw["id"])

    @property
    def title(self) -> str:
        """The title."""
        return str(self.raw.get("title", ""))

    @property
    def status(self) -> str:
        """created, submitted, queued, running, unknown, finished, failed or canceled."""
        return str(self.raw["status"])

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.status in FINAL

    @property
    def progress(self) -> float:
        """How far it is, in percent."""
        return float(self.raw.get("progress") or (100 if self.ended else 0))

    @property
    def attention(self) -> str:
        """Why it makes no progress, and what you can do; empty if there is nothing to do."""
        attention = self.raw.get("attention") or {}
        return " ".join(text for text in (attention.get("message"), attention.get("link")) if text)

    @property
    def labels(self) -> dict[str, str]:
        """Your labels."""
        return dict(self.raw.get("labels") or {})

    @property
    def created(self) -> datetime | None:
        """When it was submitted; None if that was not read."""
        return to_datetime(self.raw["created"]) if self.raw.get("created") else None

    @property
    def waits_for_you(self) -> bool:
        """Whether nothing more happens until you decide, as at the end of a trial or a budget."""
        return False

    def refresh(self: Self) -> Self:
        """Read it again."""
        self.raw = dict(self.connection.transport.get(self.path, self._summary()))
        return self

    def wait(self: Self, progress: bool | None = None, timeout: float | None = None) -> Self:
        """Wait for the end, or until it waits for you.

        progress : show a bar; by default on a terminal and in a notebook
        timeout : seconds; then TimeoutError is raised, and the jobs run on
        """
        with Bar(self, progress) as bar:
            for _ in self._follow(timeout):
                bar.show(self)
        self._check()
        return self

    def _summary(self) -> dict[str, Any]:
        """The query that reads it without what may be large."""
        return {}

    def _check(self) -> None:
        """Raise an exception if the end is not a success."""

    def _follow(self, timeout: float | None) -> Iterator[None]:
        """Yield after each change, through outages of the broker, until there is nothing more to wait for."""
        end = None if timeout is None else time.monotonic() + timeout
        etag, lost_since, pause = "", None, 1.0
        while True:
            left = _POLL if end is None else min(_POLL, end - time.monotonic())
            if left <= 0 and (etag or lost_since):  # it was read, or cannot be
                raise TimeoutError(f"{self} has not ended within {timeout} seconds")
            try:
                raw, etag = self.connection.transport.poll(self.path, self._summary(), etag, left)
            except (Unreachable, BrokerError) as error:
                passes = isinstance(error, Unreachable) or error.status >= 500 or error.status == 429
                lost_since = lost_since or time.monotonic()
                if not passes or time.monotonic() - lost_since > _OUTAGE:
                    raise
                time.sleep(min(pause, left))
                pause = min(2 * pause, 30)
                continue
            lost_since, pause = None, 1.0
            if raw is not None:
                self.raw = dict(raw)
                yield
            if self.ended or self.waits_for_you:
                return

    @abstractmethod
    def jobs(self) -> Sequence[Job]:
        """The jobs."""

    @abstractmethod
    def read_items(self, missing: dict[int, str]) -> Iterator[dict[str, Any]]:
        """The STAC Items of the finished jobs as documents. Jobs whose results cannot be read are put into missing."""

    @abstractmethod
    def read_item(self, job: int) -> dict[str, Any]:
        """The STAC Item of one job, with new links."""

    @abstractmethod
    def geometries(self) -> dict[int, Any]:
        """The geometry of each job; None if it has none."""

    @abstractmethod
    def values_by_job(self) -> dict[int, dict[str, Any]]:
        """What differs between the jobs: for each the values of the dimensions by their names."""

    @abstractmethod
    def fixed_values(self) -> dict[str, Any]:
        """The values of the parameters that all jobs have."""

    def items(self) -> Iterator[pystac.Item]:
        """The results of the finished jobs as STAC Items, whose time is that of the data where the request names one.

        At the end ResultsMissing names the jobs whose results cannot be read, if there are any.
        """
        import pystac

        missing: dict[int, str] = {}
        dated = rasters.Dates(self)
        for document in self.read_items(missing):
            yield pystac.Item.from_dict(dated.applied(document))
        if missing:
            raise ResultsMissing(missing)

    def download(
        self, folder: str | PathLike[str], layout: str | None = None, progress: bool | None = None
    ) -> list[Path]:
        """Download the files of the finished jobs, four at once, and return where they are.

        Files that are there already are not downloaded again, and those that broke off continue where they ended.

        layout : names of the files, of {name} (of the tile or value), {time} (the beginning of its time span),
            {job} (the number), {asset}, {file} (the name that the platform gives) and {extension}; by default
            "{file}" for a job, and "{job}/{file}" for a task
        """
        return downloads.download(self, Path(folder), layout or self.layout, progress)

    def to_xarray(
        self,
        bands: list[str] | None = None,
        resolution: float | None = None,
        crs: Any = None,
        **load: Any,
    ) -> Any:
        """The raster results as one xarray Dataset, a mosaic for each time, which is read as it is used.

        bands : names of bands; all by default
        resolution : size of a pixel in units of crs, metres by default; that of the first file by default
        crs : reference system; that of the files by default or, for a resolution in metres, UTM
        load : further arguments of odc.stac.load

        The links to the files can expire: then call this again.
        """
        return rasters.to_xarray(self, bands, resolution, crs, load)

    def to_pandas(self) -> Any:
        """Results that are numbers as a DataFrame: a row for each job, with its name, its time and its values.

        time is the beginning of the time span of the data; there is none if the request names no time.
        """
        return tables.numbers(self)

    def tiles(self, links: bool = False) -> Any:
        """The jobs as a GeoDataFrame: geometry, name, status, costs, platform and, with links, href of the results."""
        return tables.tiles(self, links)

    def failures(self) -> Any:
        """The jobs that failed as a DataFrame: name, reason, and attempts."""
        return tables.failures(self)

    def __str__(self) -> str:
        return f"{self.kind}-{self.id}"

    def __repr__(self) -> str:
        return f"<{self.kind.title()} {self.id} {self.title!r}: {self.state()}>"

    def state(self) -> str:
        """Its status in words."""
        return self.status if self.ended else f"{self.status}, {self.progress:.0f} %"
