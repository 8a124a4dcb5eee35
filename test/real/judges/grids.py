"""Judges the names of cells by the libraries of the grids: mgrs (GEOTRANS), pyproj (PROJ) and h3.

Reads {"cells": [{"id": text, "geometry": geometry}], "outlines": [the same]} from standard input, and writes {"points": number, "wrong": [text]}: for
each cell, points within it must have its name. The outlines of whole cells of h3 must have its corners, apart from those at the antimeridian and the poles.
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


def points_in(name, piece):
    """Points within the piece, some near its corners: edges are straight, but the borders of squares are not, by some metres, and those of hexagons by more."""
    yield piece.representative_point()
    margin = 0.002
    if name[0] == "8":
        latitude = max(abs(piece.bounds[1]), abs(piece.bounds[3]))
        margin = h3.average_hexagon_edge_length(h3.get_resolution(name)) / 1000 / math.cos(math.radians(latitude))
    inner = piece.buffer(-margin)
    for part in shapely.get_parts(inner):
        if not part.is_empty:
            for corner in part.exterior.coords[::4]:
                yield shapely.Point(corner)


def vector(p):
    lon, lat = (math.radians(v) for v in p)
    return (math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat))


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def cross(a, b):
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def metres(p, a, b):
    """From a point to the great circle between two others, all as vectors."""
    pole = cross(a, b)
    length = math.sqrt(dot(pole, pole))
    if length > 0 and dot(cross(a, p), pole) >= 0 and dot(cross(p, b), pole) >= 0:
        return math.asin(min(1, abs(dot(p, pole)) / length)) * 6371007
    return min(math.dist(p, a), math.dist(p, b)) * 6371007


def beside(outline, name):
    """The corners of the cell that the outline lacks, up to 2e-7 degrees of latitude, and points of the outline that are more than 101 m beside the border of the cell."""
    lines = [list(part.exterior.coords) for part in shapely.get_parts(shape(outline))]
    ours = [p for line in lines for p in line]
    theirs = [(lon, lat) for lat, lon in h3.cell_to_boundary(name)]
    corners = [vector(p) for p in theirs]

    def lacks(all, p):
        wide = 2e-7 / max(1e-9, math.cos(math.radians(p[1])))
        return not any(abs(q[1] - p[1]) < 2e-7 and min(abs(q[0] - p[0]), 360 - abs(q[0] - p[0])) < wide for q in all)

    def far(p):
        return min(metres(vector(p), a, b) for a, b in zip(corners, corners[1:] + corners[:1])) > 101

    # The outline is divided at the antimeridian, and closed around a pole.
    edges = [(p, q) for line in lines for p, q in zip(line, line[1:]) if not (abs(p[0]) == 180 and p[0] == q[0] or abs(p[1]) == 90 and p[1] == q[1])]
    along = [((p[0] * (2 - n) + q[0] * n) / 2, (p[1] * (2 - n) + q[1] * n) / 2) for p, q in edges for n in (0, 1)]
    return [p for p in theirs if lacks(ours, p)] + [p for p in along if far(p)]


def main():
    wrong, points, asked = [], 0, json.load(sys.stdin)
    for cell in asked.get("outlines") or []:
        points += 1
        if not h3.is_valid_cell(cell["id"]) or beside(cell["geometry"], cell["id"]):
            wrong.append(f"{cell['id']}: {cell['geometry']}")
    for cell in asked.get("cells") or []:
        for part in shapely.get_parts(shape(cell["geometry"])):
            for point in points_in(cell["id"], part):
                points += 1
                found = name_of(cell["id"], point.x, point.y)
                if found != cell["id"]:
                    wrong.append(f"{cell['id']}: {found} at {point.x}, {point.y}")
    json.dump({"points": points, "wrong": wrong[:20]}, sys.stdout)


main()
