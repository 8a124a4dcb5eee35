"""Runs the openEO Python client against the façade of a platform.

Reads {"root": URL of the façade, "token": …, "collection": id} from standard input, runs a batch job, downloads its files, and looks at what the
platform publishes. It writes what it found as JSON.
"""

import contextlib
import json
import sys
import tempfile

import openeo

given = json.load(sys.stdin)
with contextlib.redirect_stdout(sys.stderr):
    connection = openeo.connect(given["root"]).authenticate_oidc_access_token(given["token"])
    cube = connection.load_collection(given["collection"], spatial_extent={"west": 5, "south": 51, "east": 5.1, "north": 51.1}, temporal_extent=["2024-06-01", "2024-07-01"])
    faults = list(connection.validate_process_graph(cube.flat_graph()))
    job = cube.create_job(title="through a broker", out_format="GTiff", job_options={"driver-memory": "2G"})
    job.start_and_wait(max_poll_interval=1, connection_retry_interval=1)
    with tempfile.TemporaryDirectory() as folder:
        files = {path.name: path.read_text() for path in job.get_results().download_files(folder, include_stac_metadata=False)}

described = job.describe()
json.dump({
    "status": described["status"],
    "costs": described.get("costs"),
    "files": files,
    "asset": job.get_results().get_assets()[0].href,
    "logs": [entry["message"] for entry in job.logs()],
    "executed": connection.execute({"sum": {"process_id": "add", "arguments": {"x": 3, "y": 5}, "result": True}}),
    "collections": connection.list_collection_ids(),
    "processes": len(connection.list_processes()),
    "faults": faults,
    "unknown": [f["code"] for f in connection.validate_process_graph({"x": {"process_id": "no_such_process", "arguments": {}, "result": True}})],
}, sys.stdout)
