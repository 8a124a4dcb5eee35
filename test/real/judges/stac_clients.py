"""Reads the Items of a task of 500 with pystac-client and odc-stac, and sends the requests of QGIS' STAC browser."""
import json
import sys

import odc.stac
import requests
from pystac_client import Client

asked = json.load(sys.stdin)
root, collection = asked["address"] + "/stac", asked["collection"]
headers = {"Authorization": "Bearer " + asked["token"]}
west, south, east, north = box = asked["box"]


def ids(items):
    """The number of ids, and of different ones."""
    all_ids = [i["id"] if isinstance(i, dict) else i.id for i in items]
    return [len(all_ids), len(set(all_ids))]


client = Client.open(root, headers=headers)
found = {"post": ids(client.search(bbox=box, datetime="2024-06", collections=[collection], limit=70).items())}
found["get"] = ids(client.search(method="GET", bbox=box, collections=[collection], limit=70).items())
ring = [[west, south], [west + 0.25, south], [west, south + 0.25], [west, south]]
corner = {"type": "Polygon", "coordinates": [ring]}
found["corner"] = ids(client.search(intersects=corner, collections=[collection]).items())
found["earlier"] = ids(client.search(datetime="2020/2023", collections=[collection]).items())
found["collection"] = ids(client.get_collection(collection).get_items())
found["collections"] = [c.id for c in client.get_collections()]
found["label"] = ids(client.search(query={"label:project": {"eq": "alps"}}, limit=100).items())

# QGIS reads the landing page, the Collections, and pages of Items by their links, with what these say.
links = {}
for link in requests.get(root, headers=headers, timeout=60).json()["links"]:
    links[link["rel"], link.get("method", "GET")] = link["href"]
listed = requests.get(links["data", "GET"], headers=headers, timeout=60).json()["collections"]
items_of = {c["id"]: l["href"] for c in listed for l in c["links"] if l["rel"] == "items"}


def pages(method, url, body=None):
    """The Items of all pages."""
    while url:
        answer = requests.request(method, url, json=body, headers=headers, timeout=60)
        answer.raise_for_status()
        page, url = answer.json(), None
        yield from page["features"]
        for link in page["links"]:
            if link["rel"] == "next":
                method, url, body = link.get("method", "GET"), link["href"], link.get("body")


found["qgis items"] = ids(pages("GET", items_of[collection]))
found["qgis search"] = ids(pages("POST", links["search", "POST"],
                                 {"collections": [collection], "bbox": box, "limit": 80}))
everything = list(pages("GET", links["search", "GET"] + "?limit=100&collections=" + collection))
found["qgis query"] = ids(everything)
found["text"] = json.dumps(everything)
found["hrefs"] = [a["href"] for i in everything for a in i["assets"].values()]

few = list(client.search(bbox=[west, south, west + 0.15, south + 0.15], collections=[collection]).items())
cube = odc.stac.load(few, bands=["NDVI"], crs="EPSG:4326", resolution=0.005, groupby="id",
                     bbox=[west, south, west + 0.2, south + 0.2])
found["cube"] = [len(few), cube.sizes["time"], float(cube["NDVI"].notnull().mean()), float(cube["NDVI"].max())]
json.dump(found, sys.stdout)
