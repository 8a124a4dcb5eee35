"""Results: files, rasters, and numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import eodispatch
from eodispatch.files import safe_name

from .conftest import BOX

SQUARES = {"west": (5, 51, 5.1, 51.1), "east": (5.1, 51, 5.2, 51.1)}


@pytest.fixture(scope="module")
def task_id(demo: object) -> int:
    """The number of a task over two squares and two months that has finished."""
    with eodispatch.connect(demo.broker, token=demo.token()) as c:  # type: ignore[attr-defined]
        service = c.service("ndvi_composite")
        task = service.run(time="2024-01-01/2024-03-01", split="month", each={"spatial_extent": SQUARES})
        assert task.wait(timeout=600).status == "finished"
        return task.id


@pytest.fixture
def task(c: eodispatch.Connection, task_id: int) -> eodispatch.Task:
    return c.task(task_id)


def test_items_have_the_time_of_the_data(task: eodispatch.Task) -> None:
    items = list(task.items())
    spans = {(i.properties["name"], i.properties["start_datetime"], i.properties["end_datetime"]) for i in items}
    january, february, march = (f"2024-0{month}-01T00:00:00Z" for month in (1, 2, 3))
    assert spans == {(name, start, end) for name in SQUARES for start, end in ((january, february), (february, march))}
    assert all(item.datetime and item.datetime.isoformat() == item.properties["start_datetime"].replace("Z", "+00:00")
               for item in items)  # fmt: skip
    assert task.collection().id == f"task-{task.id}"


def test_a_download_with_a_layout(task: eodispatch.Task, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    paths = task.download(folder, layout="{name}/{time}.{extension}")
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    assert names == [f"{name}/2024-0{month}-01.tif" for name in ("east", "west") for month in (1, 2)]
    sizes = {asset.extra_fields["file:size"] for item in task.items() for asset in item.assets.values()}
    assert {path.stat().st_size for path in paths} == sizes
    assert not list(folder.rglob("*.part*"))


def test_a_download_goes_on(task: eodispatch.Task, tmp_path: Path) -> None:
    paths = task.download(tmp_path)
    whole = {path: path.read_bytes() for path in paths}
    times = {path: path.stat().st_mtime_ns for path in paths}
    paths[0].unlink()
    paths[1].write_bytes(whole[paths[1]][:1000])  # of another length than the Item says
    Path(f"{paths[0]}.part").write_bytes(b"a piece of which nobody knows what it is of")
    assert task.download(tmp_path) == paths
    assert {path: path.read_bytes() for path in paths} == whole
    assert [path for path in paths if path.stat().st_mtime_ns != times[path]] == paths[:2]


def test_two_files_with_one_name(task: eodispatch.Task, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="choose another layout"):
        task.download(tmp_path, layout="{name}.tif")
    with pytest.raises(ValueError, match="the layout names place"):
        task.download(tmp_path, layout="{place}.tif")


def test_files_of_another_job_are_not_taken_for_those_of_this_one(c: eodispatch.Connection, tmp_path: Path) -> None:
    service = c.service("ndvi_scene")
    first, second = service.run(BOX), service.run(BOX)
    assert first.wait().download(tmp_path) == [tmp_path / "openEO.tif"]
    with pytest.raises(ValueError, match=f"is openEO.tif of job {first.id}"):
        second.wait().download(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/openEO.tif").write_text("mine")
    with pytest.raises(ValueError, match="another file"):
        first.download(tmp_path / "own")


def test_names_of_others_lead_nowhere_else(c: eodispatch.Connection, tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    names = {"../../outside": (5, 51, 5.1, 51.1)}
    task = c.service("ndvi_composite").run(time="2024-06", each={"spatial_extent": names}).wait(timeout=600)
    (path,) = task.download(folder, layout="{name}/{file}")
    assert path == folder / "_.._outside" / "openEO.tif" and not outside.exists()
    outside.mkdir()
    other = tmp_path / "other"
    other.mkdir()
    (other / "_.._outside").symlink_to(outside)
    with pytest.raises(ValueError, match="by a link"):
        task.download(other, layout="{name}/{file}")
    assert not list(outside.iterdir())


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a/b\\c", "a_b_c"),
        ("..", "__"),
        ("", "__"),
        ("con.txt", "_con.txt_"),
        ("a\x00b", "a_b"),
        ("x.part", "_x.part_"),
    ],
)
def test_safe_names(name: str, safe: str) -> None:
    assert safe_name(name) == safe
    assert len(safe_name(name + "é" * 300 + ".tif").encode()) <= 150


def test_a_mosaic_for_each_month(task: eodispatch.Task) -> None:
    pytest.importorskip("odc.stac")
    cube = task.to_xarray()
    assert list(cube.data_vars) == ["NDVI", "DEVIATION", "CLEAR"]
    assert [str(time)[:10] for time in cube.time.values] == ["2024-01-01", "2024-02-01"]
    assert cube.NDVI.chunks is not None  # nothing was read yet
    assert cube.NDVI.shape == (2, 100, 200)  # the tiles adjoin, pixel by pixel
    january, february = (cube.NDVI.isel(time=month).load() for month in (0, 1))
    assert float(february.mean()) - float(january.mean()) > 0.01
    assert 0 < float(january.isnull().mean()) < 0.2  # never seen clearly
    assert not bool(cube.CLEAR.isel(time=0).load().isnull().any())
    coarse = task.to_xarray(bands=["DEVIATION"], resolution=200)
    assert coarse.rio.crs.to_epsg() == 32631 and list(coarse.data_vars) == ["DEVIATION"]
    values = coarse.DEVIATION.isel(time=0).values
    assert values.shape[0] > 30 and float((values == values).mean()) > 0.8
    with pytest.raises(ValueError, match="there is no band ndvi; the bands are: NDVI"):
        task.to_xarray(bands=["ndvi"])


def test_a_mosaic_of_classes(c: eodispatch.Connection) -> None:
    pytest.importorskip("odc.stac")
    task = c.service("land_cover").run(each={"bbox": SQUARES}).wait(timeout=600)
    cube = task.to_xarray()
    cover = cube.LANDCOVER.load()
    assert cover.dtype == "uint8" and set(cover.values.ravel()) == {2, 3, 4, 5}
    (item, *_) = task.items()
    (asset,) = item.assets.values()
    assert [c["title"] for c in asset.extra_fields["classification:classes"]][:2] == ["water", "bare soil"]
    assert any("classification" in extension for extension in item.stac_extensions)


def test_a_raster_of_one_job(c: eodispatch.Connection) -> None:
    pytest.importorskip("odc.stac")
    job = c.service("ndvi_composite").run(BOX, "2024-06")
    with pytest.raises(eodispatch.EodispatchError, match="has no results yet"):
        job.to_xarray()
    job.wait()
    assert str(job.to_xarray().time.values[0])[:10] == "2024-06-01"


def test_numbers_as_a_table(c: eodispatch.Connection, tmp_path: Path) -> None:
    task = c.service("ndvi_statistics").run(each={"bbox": SQUARES, "marker": ["a", "b"]}).wait(timeout=600)
    paths = task.download(tmp_path, layout="{name}-{job}/{file}")
    assert {json.loads(path.read_text()) for path in paths if path.name == "mean.json"} == {0.64, 0.68}
    pytest.importorskip("pandas")
    table = task.to_pandas()
    assert list(table.columns) == ["job", "name", "marker", "mean", "unit"]
    assert list(table["mean"]) == [0.64, 0.64, 0.68, 0.68] and list(table["marker"]) == ["a", "b", "a", "b"]


def test_tiles_as_geometries(task: eodispatch.Task, c: eodispatch.Connection) -> None:
    geopandas = pytest.importorskip("geopandas")
    tiles = task.tiles(links=True)
    assert isinstance(tiles, geopandas.GeoDataFrame) and len(tiles) == 4 and tiles.crs.to_epsg() == 4326
    assert set(tiles["status"]) == {"finished"} and set(tiles["costs"]) == {2} and set(tiles["name"]) == set(SQUARES)
    assert all(href.startswith("http") for href in tiles["href"])
    assert tuple(tiles.total_bounds) == (5, 51, 5.2, 51.1)
    squares = c.tiles(tiles, "20x20km").to_geopandas()
    assert tuple(squares.total_bounds) == (5, 51, 5.2, 51.1)
    job = c.service("ndvi_scene").run(BOX).wait()
    assert tuple(job.tiles().total_bounds) == BOX
