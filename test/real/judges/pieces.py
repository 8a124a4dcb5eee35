"""Judges the pieces that an area was split into, by GEOS.

Reads {"outline": geometry, "pieces": [geometry], "cells": [geometry], "tolerance": number} from standard input, and writes what it measured: areas
are in square degrees. A piece with no more than the tolerance beyond its cell is not counted as beyond it.
"""

import json
import math
import sys

import shapely
from shapely.geometry import shape


def clockwise(piece):
    """How many rings turn the wrong way (RFC 7946, 3.1.6)."""
    wrong = 0
    for polygon in shapely.get_parts(piece):
        wrong += not polygon.exterior.is_ccw
        wrong += sum(hole.is_ccw for hole in polygon.interiors)
    return wrong


def main():
    asked = json.load(sys.stdin)
    outline = shape(asked["outline"])
    pieces = [shape(p) for p in asked["pieces"]]
    cells = [shape(c) for c in asked["cells"]]
    difference = shapely.symmetric_difference(outline, shapely.union_all(pieces))
    json.dump({
        "outline": outline.area,
        "pieces": math.fsum(shapely.area(pieces)),
        "difference": difference.area,
        "invalid": [shapely.is_valid_reason(p) for p in pieces if not p.is_valid],
        "empty": sum(p.is_empty or p.area == 0 for p in pieces),
        "clockwise": sum(map(clockwise, pieces)),
        "beyond_cell": sum(
            not c.covers(p) and p.difference(c).area > asked.get("tolerance", 0) for c, p in zip(cells, pieces)
        ),
    }, sys.stdout)


main()
