"""Areas and times in the forms in which scientists have them."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from eodispatch import areas, times

SQUARE = {"type": "Polygon", "coordinates": [[[4, 50], [5, 50], [5, 51], [4, 51], [4, 50]]]}


def box(geometry: dict[str, Any]) -> tuple[float, ...]:
    return tuple((areas.box_around(geometry) or {}).values())


@pytest.mark.parametrize(
    "area",
    [
        (4, 50, 5, 51),
        [4.0, 50.0, 5.0, 51.0],
        {"west": 4, "south": 50, "east": 5, "north": 51},
        SQUARE,
        {"type": "Feature", "geometry": SQUARE, "properties": {}},
        {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": SQUARE}, {"type": "Feature"}]},
        {"type": "GeometryCollection", "geometries": [SQUARE]},
    ],
)
def test_areas(area: Any) -> None:
    geometry = areas.to_geojson(area)
    assert geometry["type"] == "Polygon" and box(geometry) == (4, 50, 5, 51)
    json.dumps(geometry)


def test_an_area_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "area.geojson"
    file.write_text(json.dumps(SQUARE))
    assert box(areas.to_geojson(file)) == box(areas.to_geojson(str(file))) == (4, 50, 5, 51)


def test_a_box_across_the_antimeridian() -> None:
    geometry = areas.to_geojson((179, -20, -178, -10))
    assert geometry["type"] == "MultiPolygon" and areas.box_around(geometry) is None


@pytest.mark.parametrize(
    "area",
    [
        (5, 50, 4, 51),
        (4, 51, 5, 50),
        (4, 50, 5, 91),
        (600000, 5600000, 700000, 5700000),
        {"type": "Point", "coordinates": [4, 50]},
        {"type": "Polygon", "coordinates": [[[6e5, 5e6], [7e5, 5e6], [7e5, 6e6], [6e5, 5e6]]]},
        {**SQUARE, "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::31370"}}},
        {"west": 1, "south": 1, "east": 2, "north": 2, "crs": "EPSG:32631"},
        {"type": "FeatureCollection", "features": []},
        3,
    ],
)
def test_what_is_no_area(area: Any) -> None:
    with pytest.raises(ValueError, match="area|box|degrees"):
        areas.to_geojson(area)


def test_numbers_that_are_no_box_are_named_together() -> None:
    with pytest.raises(ValueError, match=r"^\(5, 51, 6\) is no area: give \(west"):
        areas.to_geojson((5, 51, 6))


@pytest.mark.parametrize("name", ["Flanders", "fields.gpkg", "fields.geojson"])
def test_a_file_that_there_is_not(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"'{name}' is no area: there is no such file; give .west, south"):
        areas.to_geojson(name)


def test_areas_of_geopandas_and_shapely() -> None:
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    one, two = shapely.box(4, 50, 5, 51), shapely.box(4.5, 50, 6, 51)
    table = geopandas.GeoDataFrame({"crop": ["wheat", "rye"]}, geometry=[one, two], index=["a", "b"], crs=4326)
    assert box(areas.to_geojson(one)) == (4, 50, 5, 51)
    assert box(areas.to_geojson(table.total_bounds)) == (4, 50, 6, 51)
    assert areas.to_geojson(table.to_crs(32631))["type"] == "MultiPolygon"
    assert box(areas.to_geojson(table.to_crs(32631))) == pytest.approx((4, 50, 6, 51), abs=0.02)
    geometries, names = areas.to_geometries(table)
    assert len(geometries) == 2 and names == ["a", "b"]
    assert areas.to_geometries(table.reset_index(drop=True))[1] == []
    assert areas.to_geometries([one, two])[1] == []
    assert areas.to_geometries({"one": one})[1] == ["one"]


def test_excess_of_a_box() -> None:
    triangle = {"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [0, 2], [0, 0]]]}
    assert areas.excess_of_box(triangle) == pytest.approx(1)
    assert areas.excess_of_box(SQUARE) == 0


@pytest.mark.parametrize(
    ("time", "interval"),
    [
        ("2024", ["2024-01-01", "2025-01-01"]),
        ("2024-12", ["2024-12-01", "2025-01-01"]),
        ("2024-02-28", ["2024-02-28", "2024-02-29"]),
        ("2024-06-01/2024-07-01", ["2024-06-01", "2024-07-01"]),
        ("../2024-07-01", [None, "2024-07-01"]),
        (date(2024, 6, 1), ["2024-06-01", "2024-06-02"]),
        ((date(2024, 6, 1), None), ["2024-06-01", None]),
        (
            (datetime(2024, 6, 1, 12, tzinfo=timezone.utc), datetime(2024, 6, 2)),
            ["2024-06-01T12:00:00Z", "2024-06-02T00:00:00Z"],
        ),
    ],
)
def test_time_spans(time: Any, interval: list[str | None]) -> None:
    assert times.to_interval(time) == interval


@pytest.mark.parametrize(
    "time",
    [
        "June",
        "2024-13",
        "2024-02-30",
        "01/06/2024",
        "2024-6-1/2024-7-1",
        "2024-07-01/2024-06-01",
        ("2024",),
        ("2024-06", "2024-07"),
        ["2024-06-01", "2024-07-01", "2024-08-01"],
        2024,
        datetime(2024, 6, 1),
    ],
)
def test_what_is_no_time_span(time: Any) -> None:
    with pytest.raises(ValueError, match="time span") as caught:
        times.to_interval(time)
    assert str(time) in str(caught.value) or repr(time) in str(caught.value)
    assert "ends before" in str(caught.value) or "2024-06-01/2024-07-01" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "span"),
    [
        (["2024-06-01", "2024-07-01"], ("2024-06-01", "2024-07-01")),
        (["2024-06-01", None], ("2024-06-01", None)),
        ("2024-06-01T10:00:00Z", ("2024-06-01T10:00:00Z", None)),
        ("June", None),
        ([1, 2], None),
        ([None, None], None),
        (3, None),
    ],
)
def test_values_that_are_times(value: Any, span: Any) -> None:
    assert times.span_of(value) == span
