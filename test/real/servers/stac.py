"""A STAC API with one collection of one scene, for titiler-openeo to load from.

Usage: stac.py PORT FOLDER. The scene is made here: 128 x 128 pixels, B04 is 1000 and B08 is 3000 everywhere, so that the
NDVI is 0.5 everywhere, and a test can tell whether a server really computed.
"""
import json
import pathlib
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy
import rasterio
from rasterio.transform import from_bounds

port, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
root = f"http://127.0.0.1:{port}"
west, south, east, north = bbox = (5.0, 50.0, 5.1, 50.1)
moment = "2024-06-01T10:30:00Z"
bands = {"B04": 1000, "B08": 3000}
side = 128
affine = from_bounds(west, south, east, north, side, side)


def asset(band, value):
    """Writes one band as a cloud-optimised GeoTIFF and describes it."""
    raster = dict(driver="COG", width=side, height=side, count=1, dtype="uint16", crs="EPSG:4326", transform=affine)
    with rasterio.open(folder / f"{band}.tif", "w", **raster) as out:
        out.write(numpy.full((1, side, side), value, "uint16"))
    return {
        "href": f"{root}/files/{band}.tif",
        "type": "image/tiff; application=geotiff; profile=cloud-optimized",
        "roles": ["data"],
        "eo:bands": [{"name": band}],
        "raster:bands": [{"data_type": "uint16"}],
        "proj:shape": [side, side],
        "proj:transform": list(affine)[:6],
    }


def links(**paths):
    return [{"rel": rel, "type": "application/json", "href": root + path} for rel, path in paths.items()]


item = {
    "type": "Feature",
    "stac_version": "1.0.0",
    "stac_extensions": ["https://stac-extensions.github.io/projection/v1.1.0/schema.json"],
    "id": "scene",
    "collection": "scenes",
    "bbox": bbox,
    "geometry": {"type": "Polygon", "coordinates": [
        [[west, south], [east, south], [east, north], [west, north], [west, south]]]},
    "properties": {"datetime": moment, "proj:epsg": 4326, "eo:cloud_cover": 0},
    "assets": {band: asset(band, value) for band, value in bands.items()},
    "links": links(self="/collections/scenes/items/scene", collection="/collections/scenes", root="/"),
}
found = {"type": "FeatureCollection", "features": [item], "numberMatched": 1, "numberReturned": 1, "links": links(self="/search")}
collection = {
    "type": "Collection",
    "stac_version": "1.0.0",
    "id": "scenes",
    "description": "One scene whose NDVI is 0.5.",
    "license": "CC0-1.0",
    "extent": {"spatial": {"bbox": [bbox]}, "temporal": {"interval": [[moment, moment]]}},
    "summaries": {"eo:bands": [{"name": band} for band in bands]},
    "cube:dimensions": {
        "x": {"type": "spatial", "axis": "x", "extent": [west, east]},
        "y": {"type": "spatial", "axis": "y", "extent": [south, north]},
        "time": {"type": "temporal", "extent": [moment, moment]},
        "bands": {"type": "bands", "values": list(bands)},
    },
    "links": links(self="/collections/scenes", root="/", items="/collections/scenes/items"),
}
conforms = [
    "https://api.stacspec.org/v1.0.0/core",
    "https://api.stacspec.org/v1.0.0/collections",
    "https://api.stacspec.org/v1.0.0/item-search",
]
landing = {
    "type": "Catalog",
    "stac_version": "1.0.0",
    "id": "scenes",
    "description": "STAC for tests",
    "conformsTo": conforms,
    "links": links(self="/", root="/", data="/collections", conformance="/conformance") + [
        {"rel": "search", "type": "application/geo+json", "href": f"{root}/search", "method": method}
        for method in ("GET", "POST")
    ],
}
documents = {
    "/": landing,
    "/conformance": {"conformsTo": conforms},
    "/collections": {"collections": [collection], "links": links(self="/collections")},
    "/collections/scenes": collection,
    "/collections/scenes/items": found,
    "/collections/scenes/items/scene": item,
    "/search": found,
}


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, kind, body, **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def file(self, name):
        """A file or, as GDAL asks for, a range of its bytes."""
        data = (folder / name).read_bytes()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not wanted:
            return self.answer(200, "image/tiff", data, Accept_Ranges="bytes")
        first, last = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
        span = f"bytes {first}-{last}/{len(data)}"
        return self.answer(206, "image/tiff", data[first:last + 1], Accept_Ranges="bytes", Content_Range=span)

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        name = path.removeprefix("/files/")
        if name in (f"{band}.tif" for band in bands):
            return self.file(name)
        document = documents.get(path.rstrip("/") or "/")
        body = json.dumps(document or {"code": "NotFound"}).encode()
        return self.answer(200 if document else 404, "application/json", body)

    do_HEAD = do_POST = do_GET

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
