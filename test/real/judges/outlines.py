"""Writes outlines of countries, and of Africa, as GeoJSON geometries by name.

They are Natural Earth's at 1:10 million, as the npm package world-atlas gives them in TopoJSON: the path of that file is the
argument. Outlines that are not valid are repaired.
"""

import json
import sys

import shapely
from shapely.geometry import mapping, shape

COUNTRIES = """Argentina,Belgium,Brazil,Canada,Chile,China,France,Greece,Greenland,India,Indonesia,Italy,Kazakhstan,Lesotho,
New Zealand,Norway,South Africa,Sweden,United Kingdom,United States of America,Vietnam""".replace("\n", "").split(",")
AFRICA = """Algeria,Angola,Benin,Botswana,Burkina Faso,Burundi,Cameroon,Central African Rep.,Chad,Congo,Côte d'Ivoire,
Dem. Rep. Congo,Djibouti,Egypt,Eq. Guinea,Eritrea,Ethiopia,Gabon,Gambia,Ghana,Guinea,Guinea-Bissau,Kenya,Lesotho,Liberia,
Libya,Madagascar,Malawi,Mali,Mauritania,Morocco,Mozambique,Namibia,Niger,Nigeria,Rwanda,S. Sudan,Senegal,Sierra Leone,Somalia,
Somaliland,South Africa,Sudan,Tanzania,Togo,Tunisia,Uganda,W. Sahara,Zambia,Zimbabwe,eSwatini""".replace("\n", "").split(",")


def arcs_of(topology):
    """Positions of each arc: the quantized differences added up (TopoJSON 1.0, 2.1.4)."""
    (kx, ky), (dx, dy) = topology["transform"]["scale"], topology["transform"]["translate"]
    arcs = []
    for arc in topology["arcs"]:
        x = y = 0
        positions = []
        for step in arc:
            x, y = x + step[0], y + step[1]
            positions.append((x * kx + dx, y * ky + dy))
        arcs.append(positions)
    return arcs


def ring(indexes, arcs):
    positions = []
    for index in indexes:
        arc = arcs[index] if index >= 0 else arcs[~index][::-1]
        positions.extend(arc[1:] if positions else arc)
    return positions


def geometry(member, arcs):
    polygons = [member["arcs"]] if member["type"] == "Polygon" else member["arcs"]
    polygons = [[ring(r, arcs) for r in polygon] for polygon in polygons]
    return shape({"type": "MultiPolygon", "coordinates": polygons})


def polygons(valid):
    """The polygons of a repaired geometry: what was no more than a line or a point is left out."""
    parts = [p for p in shapely.get_parts(valid) if p.geom_type in ("Polygon", "MultiPolygon")]
    return shapely.MultiPolygon([q for p in parts for q in shapely.get_parts(p)])


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        topology = json.load(file)
    arcs = arcs_of(topology)
    found = {m["properties"]["name"]: m for m in topology["objects"]["countries"]["geometries"] if m.get("arcs")}
    outlines = {name: polygons(shapely.make_valid(geometry(found[name], arcs))) for name in COUNTRIES}
    africa = [shapely.make_valid(geometry(found[name], arcs)) for name in AFRICA]
    outlines["Africa"] = polygons(shapely.union_all(africa))
    json.dump({name: mapping(outline) for name, outline in outlines.items()}, sys.stdout)


main()
