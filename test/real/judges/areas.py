"""Writes areas to files by GDAL, and compares areas by shapely.

areas.py write FOLDER  reads {name: {"system": EPSG code, "layer": [GeoJSON geometry]}} and writes name, by its extension; .zip is a
                       zipped shapefile. It prints {}.
areas.py compare       reads {name: [[GeoJSON geometry], GeoJSON geometry]} and prints {name: area of the difference}.
"""

import json
import pathlib
import sys
import zipfile

import fiona
from fiona.crs import CRS
from shapely.geometry import shape
from shapely.ops import unary_union


def write(folder, name, area):
    kind = {"geometry": "MultiPolygon", "properties": {"name": "str"}}
    driver = "GPKG" if name.endswith(".gpkg") else "ESRI Shapefile"
    target = folder / name if driver == "GPKG" else folder / (name + ".d") / "area.shp"
    target.parent.mkdir(exist_ok=True)
    if driver != "GPKG":
        kind["geometry"] = "Polygon"  # of which a shape may have many
    with fiona.open(target, "w", driver=driver, schema=kind, crs=CRS.from_epsg(area["system"])) as out:
        for geometry in area["layer"]:
            out.write({"type": "Feature", "geometry": geometry, "properties": {"name": "a"}})
    if driver != "GPKG":
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for part in target.parent.iterdir():
                archive.write(part, part.name)


def main():
    given = json.load(sys.stdin)
    if sys.argv[1] == "write":
        for name, area in given.items():
            write(pathlib.Path(sys.argv[2]), name, area)
        print("{}")
        return
    print(json.dumps({name: unary_union([shape(g) for g in want]).symmetric_difference(shape(got)).area for name, (want, got) in given.items()}))


main()
