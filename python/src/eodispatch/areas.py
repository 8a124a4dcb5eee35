"""Areas as GeoJSON, from what scientists have: boxes, shapely, GeoPandas, GeoJSON, and files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from . import extras

Area = Union[Sequence[float], Mapping[str, Any], str, "os.PathLike[str]", Any]
"""(west, south, east, north) in degrees; GeoJSON; what has __geo_interface__, such as a shapely geometry or a
GeoDataFrame; or a file with one of these."""

Polygon = list[list[list[float]]]
"""The rings of a GeoJSON Polygon."""

_FARTHEST = 540
"""Degrees of longitude, as the broker accepts them for areas across the antimeridian."""

_WIDEST_CROSSING = 180
"""Degrees that a box across the antimeridian may have. In a wider one west and east are more likely confused."""


def to_geojson(area: Area) -> dict[str, Any]:
    """One GeoJSON Polygon or MultiPolygon of all polygons of an area."""
    polygons = [_checked(polygon) for polygon in _polygons(area)]
    if not polygons:
        raise ValueError("the area has no polygon")
    if len(polygons) == 1:
        return {"type": "Polygon", "coordinates": polygons[0]}
    return {"type": "MultiPolygon", "coordinates": polygons}


def to_geometries(areas: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The geometry of each feature of a table, FeatureCollection or list of areas, and the names; none: no names.

    The names are the ids of the features, or the index of a GeoDataFrame or GeoSeries that has names.
    """
    names: list[str] = []
    features = _read(areas)
    if isinstance(features, Mapping) and "type" not in features:  # areas by their names
        names, features = [str(name) for name in features], list(features.values())
    elif isinstance(features, Mapping) and features.get("type") == "FeatureCollection":
        features = list(features["features"])
        ids = [feature.get("id") if isinstance(feature, Mapping) else None for feature in features]
        counted = [str(number) for number in range(len(ids))]
        names = ["" if name is None else str(name) for name in ids]
        if names == counted and hasattr(areas, "index"):
            names = []  # the index of a table that was not given one
    elif isinstance(features, Mapping):
        raise ValueError("give several areas: a GeoDataFrame, a FeatureCollection, a list, or a dict with their names")
    return [to_geojson(feature) for feature in features], names if any(names) else []


def box_around(area: Mapping[str, Any]) -> dict[str, float] | None:
    """The box around a GeoJSON area, as openEO writes it; None if it crosses the antimeridian, which openEO has not."""
    positions = [position for polygon in _of_geojson(area) for ring in polygon for position in ring]
    west, east = min(p[0] for p in positions), max(p[0] for p in positions)
    south, north = min(p[1] for p in positions), max(p[1] for p in positions)
    if west < -180 or east > 180 or (west == -180 and east == 180 and len(_of_geojson(area)) > 1):
        return None
    return {"west": west, "south": south, "east": east, "north": north}


def excess_of_box(area: Mapping[str, Any]) -> float:
    """How much larger the box around an area is than the area: 0.3 for 30 %."""
    box = box_around(area)
    own = sum(_ring_area(ring) * (1 if i == 0 else -1) for p in _of_geojson(area) for i, ring in enumerate(p))
    if box is None or own <= 0:
        return 0.0
    return (box["east"] - box["west"]) * (box["north"] - box["south"]) / own - 1


def _ring_area(ring: Sequence[Sequence[float]]) -> float:
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(ring, [*ring[1:], ring[0]]))) / 2


def _polygons(area: Area) -> list[Polygon]:
    read = _read(area)
    if isinstance(read, Mapping):
        if {"west", "south", "east", "north"} <= set(read):
            if str(read.get("crs") or 4326).upper() not in ("4326", "EPSG:4326"):
                raise ValueError("give the area in degrees: longitude and latitude, EPSG:4326")
            return _of_box([read["west"], read["south"], read["east"], read["north"]])
        return _of_geojson(read)
    if isinstance(read, Sequence) and len(read) == 4 and all(_is_number(n) for n in read):
        return _of_box([float(n) for n in read])
    if isinstance(read, Iterable) and not (isinstance(read, Sequence) and any(map(_is_number, read))):
        return [polygon for one in read for polygon in _polygons(one)]
    raise ValueError(f"{area!r} is no area: give (west, south, east, north), GeoJSON, or a geometry")


def _is_number(value: Any) -> bool:
    return not isinstance(value, (str, bytes)) and hasattr(value, "__float__")


def _read(area: Area) -> Any:
    """GeoJSON, or numbers, of an area."""
    if isinstance(area, (str, os.PathLike)):
        return _of_file(Path(area))
    if getattr(area, "crs", None) is not None and hasattr(area, "to_crs"):
        area = area.to_crs(4326)
    read = getattr(area, "__geo_interface__", area)
    return read.tolist() if hasattr(read, "tolist") else read  # an array, such as the bounds of a GeoDataFrame


def _of_file(path: Path) -> Any:
    if not path.exists() and not str(path).startswith("/vsi"):
        raise FileNotFoundError(
            f"{str(path)!r} is no area: there is no such file; give (west, south, east, north), GeoJSON, or a geometry"
        )
    if path.suffix.lower() in (".json", ".geojson"):
        return json.loads(path.read_text("utf-8-sig"))
    return extras.geopandas().read_file(path).to_crs(4326).__geo_interface__


def _of_geojson(document: Mapping[str, Any]) -> list[Polygon]:
    crs = json.dumps(document.get("crs"))
    if crs != "null" and "CRS84" not in crs and "4326" not in crs:
        raise ValueError(f"the area is in another reference system, {crs}: give it in longitude and latitude")
    kind = document.get("type")
    if kind == "Polygon":
        return [document["coordinates"]]
    if kind == "MultiPolygon":
        return list(document["coordinates"])
    if kind == "Feature":
        return _of_geojson(document["geometry"]) if document.get("geometry") else []
    parts = {"FeatureCollection": "features", "GeometryCollection": "geometries"}
    if kind in parts:
        return [polygon for part in document[parts[kind]] for polygon in _polygons(part)]
    raise ValueError(f"a {kind or 'document without a type'} is no area: give polygons")


def _of_box(box: Sequence[float]) -> list[Polygon]:
    west, south, east, north = box
    crosses = west > east and east + 360 - west <= _WIDEST_CROSSING
    if not (-180 <= min(west, east) and max(west, east) <= 180 and -90 <= south < north <= 90) or (
        west >= east and not crosses
    ):
        raise ValueError(f"{tuple(box)} is no box in degrees: give (west, south, east, north)")
    if crosses:  # in two parts (RFC 7946, section 3.1.9)
        return [rectangle(west, south, 180, north), rectangle(-180, south, east, north)]
    return [rectangle(west, south, east, north)]


def rectangle(west: float, south: float, east: float, north: float) -> Polygon:
    """The rings of a box that does not cross the antimeridian."""
    return [[[west, south], [east, south], [east, north], [west, north], [west, south]]]


def _checked(polygon: Polygon) -> Polygon:
    """A polygon without heights. Coordinates of a projected system are refused."""
    flat = [[[float(position[0]), float(position[1])] for position in ring] for ring in polygon]
    for ring in flat:
        for longitude, latitude in ring:
            if not (abs(longitude) <= _FARTHEST and abs(latitude) <= 90):
                raise ValueError(f"({longitude}, {latitude}) is no position in degrees: give longitude and latitude")
    return flat
