"""Raster results as one xarray Dataset, and the times of results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import extras
from .errors import EodispatchError, ResultsMissing
from .times import span_of

if TYPE_CHECKING:
    from .runs import Run


class Dates:
    """The time span of the data of each job: that of its request, as far as it names one."""

    def __init__(self, run: Run) -> None:
        self._varying: dict[int, tuple[str | None, str | None]] = {}
        for job, values in run.values_by_job().items():
            spans = [span for span in map(span_of, values.values()) if span]
            if spans:
                self._varying[job] = spans[0]
        self._fixed: tuple[str | None, str | None] | None = None
        if not self._varying:
            self._fixed = next((span for span in map(span_of, run.fixed_values().values()) if span), None)

    def span(self, job: int) -> tuple[str | None, str | None] | None:
        """The beginning and the end for a job; None if its request names no time."""
        return self._varying.get(job, self._fixed)

    def applied(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """An Item with the time of its data. What platforms give is often the time of the run."""
        span = self.span(int(item["id"]))
        if span is None:
            return dict(item)
        start, end = (None if text is None else _to_rfc3339(text) for text in span)
        properties = {**item["properties"], "datetime": start or end}
        for name in ("start_datetime", "end_datetime"):
            properties.pop(name, None)
        if start and end:
            properties.update({"start_datetime": start, "end_datetime": end})
        return {**item, "properties": properties}


def _to_rfc3339(text: str) -> str:
    if len(text) == len("2024-06-01"):
        return text + "T00:00:00Z"
    return text if re.search(r"(Z|[+-]\d\d:\d\d)$", text) else text + "Z"


def to_xarray(run: Run, bands: list[str] | None, resolution: float | None, crs: Any, load: Mapping[str, Any]) -> Any:
    """Load the raster results by odc-stac."""
    odc = extras.odc_stac()
    import pystac

    missing: dict[int, str] = {}
    dates = Dates(run)
    rasters = _Rasters([dates.applied(document) for document in run.read_items(missing)])
    if missing:
        raise ResultsMissing(missing)
    if not rasters.items:
        raise EodispatchError(f"{run} has no finished jobs with rasters")
    unknown = set(bands or ()) - set(rasters.bands)
    if unknown:
        raise ValueError(f"there is no band {', '.join(sorted(unknown))}; the bands are: {', '.join(rasters.bands)}")
    chosen = {name: rasters.bands[name] for name in bands or rasters.bands}
    grid = rasters.grid(resolution, crs) if "geobox" not in load and "like" not in load else {}
    # GDAL would look for further files beside each, which signed links do not lead to.
    odc.configure_rio(cloud_defaults=True)
    dataset = odc.load(
        [pystac.Item.from_dict(document) for document in rasters.items],
        **{"bands": list(chosen.values()), "chunks": {}, "groupby": "time", **grid, **load},
    )
    return dataset.rename({key: name for name, key in chosen.items()})


class _Rasters:
    """The raster assets of Items, with the bands that the first file of each has."""

    def __init__(self, documents: list[dict[str, Any]]) -> None:
        self.items: list[dict[str, Any]] = []
        self.bands: dict[str, str] = {}
        """The keys by which odc-stac knows the bands, by their names."""
        self._header: Any = None
        described: dict[str, list[dict[str, Any]]] = {}
        for document in documents:
            found = {key: asset for key, asset in document["assets"].items() if _is_raster(key, asset)}
            for asset in found.values():
                if not str(asset["href"]).startswith(("https://", "http://")):  # GDAL would open files of this machine
                    raise EodispatchError(f"the results of job {document['id']} have a link that leads to no server")
            if not found:
                continue
            assets = {}
            for key, asset in found.items():
                # With one file for each job its name does not matter, and may differ.
                short = "raster" if len(found) == 1 else re.sub(r"\W+", "_", key)
                if short not in described:
                    described[short] = self._describe(short, asset, alone=len(found) == 1)
                assets[short] = {**asset, "raster:bands": described[short]}
            self.items.append({**document, "assets": assets, "stac_extensions": [_RASTER], "links": []})

    def _describe(self, short: str, asset: Mapping[str, Any], alone: bool) -> list[dict[str, Any]]:
        """Read what a file has, and name its bands."""
        rasterio = extras.rasterio()
        with rasterio.Env(GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR"), rasterio.open(asset["href"]) as file:
            self._header = self._header or (file.crs, file.transform)
            stated = asset.get("bands") or asset.get("eo:bands") or asset.get("raster:bands") or []
            names = [band.get("name") for band in stated] if len(stated) == file.count else list(file.descriptions)
            for number, name in enumerate(names, 1):
                plain = f"band_{number}" if alone else f"{short}_{number}"
                if file.count == 1:
                    plain = name or ("band_1" if alone else short)
                self.bands[name or plain] = f"{short}.{number}"
            return [{"data_type": kind, "nodata": file.nodata} for kind in file.dtypes]

    def grid(self, resolution: float | None, crs: Any) -> dict[str, Any]:
        """The reference system and the size of the pixels."""
        own, transform = self._header
        if crs is None:
            in_degrees = own is None or own.is_geographic
            crs = "utm" if in_degrees and resolution is not None and resolution >= 1 else own
        if resolution is None:
            from odc.geo import Resolution

            return {"crs": crs, "resolution": Resolution(transform.a, transform.e)}
        return {"crs": crs, "resolution": resolution}


_RASTER = "https://stac-extensions.github.io/raster/v1.1.0/schema.json"


def _is_raster(key: str, asset: Mapping[str, Any]) -> bool:
    media = str(asset.get("type") or "").lower()
    return media.startswith("image/tiff") or (not media and key.lower().endswith((".tif", ".tiff")))
