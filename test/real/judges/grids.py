"""Judges the names of cells by the libraries of the grids: mgrs (GEOTRANS), pyproj (PROJ) and h3.

Reads {"cells": [{"id": text, "geometry": geometry}]} from standard input, and writes {"points": number, "wrong": [text]}: for each cell, points
within it must have its name.
"""

import json
import math
import sys
from functools import cache

import h3
import mgrs
import pyproj
import shapely
from shapely.geometry import shape

military = mgrs.MGRS()


@cache
def projection(zone):
    # Southern northings have a false origin, which names have too.
    return pyproj.Transformer.from_crs("EPSG:4326", f"EPSG:{zone}", always_xy=True)


def utm_name(name, lon, lat):
    """The name of the point's square, in the zone of the cell."""
    _, size, zone, _, _ = name.split("-")
    km = int(size.removesuffix("km"))
    letter = military.toMGRS(lat, lon, MGRSPrecision=0)
    half = "n" if lat >= 0 else "s"
    x, y = projection((32600 if lat >= 0 else 32700) + int(letter[:2])).transform(lon, lat)
    corner = [math.floor(v / 1000 / km) * km for v in (x, y)]
    return f"utm-{km}km-{letter[:2]}{half}-e{corner[0]:04d}-n{corner[1]:05d}"


def name_of(asked, lon, lat):
    if asked.startswith("utm"):
        return utm_name(asked, lon, lat)
    if asked[0] == "8":
        return h3.latlng_to_cell(lat, lon, h3.get_resolution(asked))
    return military.toMGRS(lat, lon, MGRSPrecision=0)


def points_in(piece):
    """Points within the piece, some near its corners: edges are straight, but the borders of squares are not, by some metres."""
    yield piece.representative_point()
    inner = piece.buffer(-0.002)
    for part in shapely.get_parts(inner):
        if not part.is_empty:
            for corner in part.exterior.coords[::4]:
                yield shapely.Point(corner)


def main():
    wrong, points = [], 0
    for cell in json.load(sys.stdin)["cells"]:
        for part in shapely.get_parts(shape(cell["geometry"])):
            for point in points_in(part):
                points += 1
                found = name_of(cell["id"], point.x, point.y)
                if found != cell["id"]:
                    wrong.append(f"{cell['id']}: {found} at {point.x}, {point.y}")
    json.dump({"points": points, "wrong": wrong[:20]}, sys.stdout)


main()
