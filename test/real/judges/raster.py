"""Reads GeoTIFFs with GDAL, by rasterio.

Reads {name: file in base64} from standard input, and writes for each file its coordinate system, its bounds and, for each band, the
least and the greatest value.
"""

import base64
import json
import sys

from rasterio.io import MemoryFile


def read(content):
    with MemoryFile(content) as file, file.open(driver="GTiff") as raster:
        return {"crs": raster.crs.to_string(), "bounds": list(raster.bounds), "size": [raster.width, raster.height],
                "bands": [[float(band.min()), float(band.max())] for band in raster.read()]}


json.dump({name: read(base64.b64decode(content)) for name, content in json.load(sys.stdin).items()}, sys.stdout)
