"""Jobs and results that are numbers, as tables of pandas and GeoPandas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx

from . import extras
from .errors import EodispatchError, ResultsMissing
from .files import content_of
from .rasters import Dates
from .times import span_of

if TYPE_CHECKING:
    from .runs import Run

_LARGEST = 1 << 20
"""Bytes of a file with numbers."""


def numbers(run: Run) -> Any:
    """A row for each job with the numbers and texts of its results."""
    pandas = extras.pandas()
    missing: dict[int, str] = {}
    dates, varying = Dates(run), run.values_by_job()
    rows = []
    with httpx.Client(timeout=60, follow_redirects=True) as http:
        for document in run.read_items(missing):
            job = int(document["id"])
            row: dict[str, Any] = {"job": job, "name": document["properties"].get("name")}
            span = dates.span(job)
            if span:
                row["time"] = span[0] or span[1]
            row.update({name: value for name, value in varying.get(job, {}).items() if _is_plain(value)})
            for key, asset in document["assets"].items():
                row.update(_numbers_of(http, key, asset))
            rows.append(row)
    if missing:
        raise ResultsMissing(missing)
    frame = pandas.DataFrame(rows)
    if "time" in frame:
        frame["time"] = pandas.to_datetime(frame["time"], utc=True, format="ISO8601")
    return frame.sort_values("job", ignore_index=True) if rows else frame


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool)) and span_of(value) is None


def _numbers_of(http: httpx.Client, key: str, asset: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that a file gives; none if it is another kind of file."""
    media = str(asset.get("type") or "").partition(";")[0].lower()
    if media not in ("application/json", "text/plain") or (asset.get("file:size") or 0) > _LARGEST:
        return {}
    href = str(asset["href"])
    content = content_of(href) if href[:5].lower() == "data:" else _read(http, href)
    if media == "text/plain":
        return {key: content.decode(errors="replace")}
    value = json.loads(content)
    if isinstance(value, dict):
        return {f"{key}.{name}": inner for name, inner in value.items() if not isinstance(inner, (dict, list))}
    return {} if isinstance(value, list) else {key: value}


def _read(http: httpx.Client, href: str) -> bytes:
    """Read a small file."""
    content = b""
    with http.stream("GET", href) as response:
        for piece in response.raise_for_status().iter_bytes():
            content += piece
            if len(content) > _LARGEST:
                raise EodispatchError(f"a file with numbers is larger than {_LARGEST} bytes: download it")
    return content


def tiles(run: Run, links: bool) -> Any:
    """The jobs with their geometries."""
    geopandas = extras.geopandas()
    features = run.geometries()
    jobs = {job.id: job for job in run.jobs()}
    hrefs = {int(item["id"]): _first_href(item) for item in run.read_items({})} if links else {}
    rows = []
    for number, geometry in features.items():
        job = jobs.get(number)
        if job is None:
            continue  # deleted meanwhile
        row = {"job": job.id, "name": job.name, "status": job.status, "costs": job.costs, "unit": job.cost_unit}
        row.update({"platform": job.platform, "failure": job.failure})
        if links:
            row["href"] = hrefs.get(number)
        rows.append({"type": "Feature", "geometry": geometry, "properties": row})
    columns = ["geometry", "job", "name", "status", "costs", "unit", "platform", "failure", *(["href"] * links)]
    return geopandas.GeoDataFrame.from_features(rows, crs=4326, columns=columns)


def _first_href(item: Mapping[str, Any]) -> str | None:
    return next((str(asset["href"]) for asset in item["assets"].values()), None)


def failures(run: Run) -> Any:
    """The jobs that failed, with their reasons."""
    pandas = extras.pandas()
    rows = []
    for job in run.jobs():
        if job.status == "failed":
            retries = job.raw.get("retries") or {}
            rows.append((job.id, job.name, job.failure, 1 + int(retries.get("done") or 0), job.platform))
    return pandas.DataFrame(rows, columns=["job", "name", "reason", "attempts", "platform"])
