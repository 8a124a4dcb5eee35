"""Runs one script of the openEO Python client twice, at a platform and through the broker. Only the URL differs.

Reads {"urls": [URL, …], "token": …} from standard input, and writes for each URL what the script saw as JSON.
"""

import contextlib
import json
import pathlib
import sys

import openeo

given = json.load(sys.stdin)


def notebook(url, folder):
    connection = openeo.connect(url)
    connection.authenticate_oidc_access_token(given["token"])
    described = connection.describe_collection("SENTINEL2_L2A")
    cube = connection.load_collection(
        "SENTINEL2_L2A", spatial_extent={"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25}, temporal_extent=["2024-06-01", "2024-07-01"],
        bands=["B04", "B08"])
    ndvi = cube.ndvi(nir="B08", red="B04").reduce_dimension(dimension="t", reducer="mean")
    faults = connection.validate_process_graph(ndvi.save_result("GTiff"))
    job = ndvi.create_job(title="NDVI", description="of June", out_format="GTiff", job_options={"driver-memory": "2g"})
    job.start_and_wait()
    results = job.get_results()
    files = results.download_files(folder)
    metadata = job.describe()
    return {
        "collections": connection.list_collection_ids(),
        "processes": sorted(p["id"] for p in connection.list_processes()),
        "formats": sorted(connection.list_output_formats()),
        "described": {name: described.get(name) for name in ("id", "title", "description", "license", "extent", "cube:dimensions")},
        "faults": faults,
        "job": {name: metadata.get(name) for name in ("title", "status", "progress", "costs", "process")},
        "files": {f.name: f.read_bytes().hex() for f in map(pathlib.Path, files) if f.name != "job-results.json"},
        "assets": sorted((a.name, a.metadata.get("type"), a.metadata.get("roles")) for a in results.get_assets()),
        "logs": [e.level for e in job.logs(level="error")],
    }


with contextlib.redirect_stdout(sys.stderr):
    seen = [notebook(url, f"results-{i}") for i, url in enumerate(given["urls"])]
json.dump(seen, sys.stdout)
