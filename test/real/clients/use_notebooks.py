"""Sends what the published notebooks of the APEx Dispatch API send, by plain HTTP, and reads what they read of the responses.

Reads {"broker": URL, "token": …, "openeo": URL} from standard input, and writes what it got as JSON.
"""

import json
import sys
import time

import httpx

given = json.load(sys.stdin)
http = httpx.Client(base_url=given["broker"], headers={"Authorization": "Bearer " + given["token"]}, timeout=60)
# The colours by which the notebooks draw jobs; a status without one is drawn black.
COLOURS = {"created": "grey", "queued": "yellow", "running": "blue", "finished": "green", "failed": "red", "canceled": "orange", "unknown": "white"}
SERVICE = {"endpoint": given["openeo"], "application": "ndvi_composite"}
BODY = {"title": "NDVI", "label": "openeo", "service": SERVICE, "format": "gtiff"}
SPAN = ["2024-06-01", "2024-07-01"]
AREA = {"type": "Polygon", "coordinates": [[[5.0, 51.0], [5.4, 51.0], [5.4, 51.2], [5.0, 51.2], [5.0, 51.0]]]}
statuses = set()


def post(path, body, expected=201):
    a = http.post(path, json=body)
    assert a.status_code == expected, f"{path}: {a.status_code} {a.text}"
    return a


def follow(path):
    until = time.monotonic() + 120
    while True:
        current = http.get(path).raise_for_status().json()
        statuses.update([current["status"], *(j["status"] for j in current.get("jobs", []))])
        if current["status"] in ("finished", "failed", "canceled") or time.monotonic() > until:
            return current
        time.sleep(0.2)


def raster(job):
    """Reads the asset as rasterio does, without the token of the broker."""
    collection = http.get(f"/unit_jobs/{job}/results").raise_for_status().json()
    file = httpx.get(collection["assets"]["openEO.tif"]["href"]).raise_for_status()
    return file.content[:4] in (b"II*\0", b"MM\0*")


# execution
job = post("/unit_jobs", {**BODY, "parameters": {"spatial_extent": {"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25}, "temporal_extent": SPAN}}).json()
statuses.add(job["status"])
executed = follow(f"/unit_jobs/{job['id']}")
# a synchronous run
ran = post("/sync_jobs", {**BODY, "parameters": {"spatial_extent": AREA, "temporal_extent": SPAN}}, 200)
# upscaling: tiles, a task over them, and its jobs
tiles = httpx.post(given["broker"] + "/tiles", json={"aoi": AREA, "grid": "20x20km"}).raise_for_status().json()["geometries"]
task = post("/upscale_tasks", {**BODY, "parameters": {"temporal_extent": SPAN}, "dimension": {"name": "spatial_extent", "values": tiles}}).json()
statuses.add(task["status"])
upscaled = follow(f"/upscale_tasks/{task['id']}")

json.dump({
    "executed": executed["status"],
    "raster": raster(executed["id"]),
    "sync": len(ran.content) > 1000,
    "upscaled": upscaled["status"],
    "jobs": len(upscaled["jobs"]) == len(tiles) > 1,
    "tile": upscaled["jobs"][0]["parameters"]["spatial_extent"] == tiles[0],
    "rasters": all(raster(j["id"]) for j in upscaled["jobs"]),
    "black": sorted(statuses - set(COLOURS)),
}, sys.stdout)
