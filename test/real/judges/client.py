"""Judges an OpenAPI document by the Python client that openapi-python-client makes of it.

Reads {"address": URL of a broker, "folder": where to write the client} from standard input, and writes what the client got from the
broker and what it makes of a job. A document that the generator has a warning about is refused.
"""

import json
import os
import subprocess
import sys


def generate(address, folder):
    """Makes the client, as the package client in folder."""
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--url", address + "/openapi.json",
               "--output-path", os.path.join(folder, "client"), "--meta", "none", "--fail-on-warning"]
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # where the generator's formatter is
    subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ, "PATH": path})
    sys.path.insert(0, folder)


JOB = {"id": 42, "title": "NDVI", "label": "openeo", "status": "finished", "parameters": {"x": 1},
       "service": {"endpoint": "https://openeo.example.org", "namespace": None, "application": "ndvi"},
       "platform": "vito", "created": "2026-05-01T12:30:00Z", "updated": "2026-05-01T12:31:00Z"}
TASK = {**JOB, "counts": {"finished": 1}, "progress": 100}


def use(address):
    """Calls what needs no token, and reads a job, a task and a list, whose statuses must have one type."""
    from client import Client
    from client.api.upscale_tasks import list_grids, split_in_tiles_tiles_post
    from client.models import GridTypeEnum, JobsStatusResponse, ProcessingJob, ProcessingStatusEnum, TileRequest, UpscalingTask

    broker = Client(base_url=address, raise_on_unexpected_status=True)
    grids = list_grids.sync(client=broker)
    area = {"type": "Polygon", "coordinates": [[[4, 50], [5, 50], [5, 51], [4, 51], [4, 50]]]}
    tiles = split_in_tiles_tiles_post.sync(client=broker, body=TileRequest.from_dict({"aoi": area, "grid": GridTypeEnum(grids[0].name)}))
    job = ProcessingJob.from_dict(JOB)
    task = UpscalingTask.from_dict({**TASK, "jobs": [JOB]})
    listed = JobsStatusResponse.from_dict({"upscaling_tasks": [TASK], "processing_jobs": [JOB]})
    statuses = [job.status, task.status, task.jobs[0].status, listed.upscaling_tasks[0].status, listed.processing_jobs[0].status]
    return {"grids": [g.name for g in grids], "tiles": len(tiles.geometries), "one_status": all(s is ProcessingStatusEnum.FINISHED for s in statuses)}


given = json.load(sys.stdin)
generate(given["address"], given["folder"])
json.dump(use(given["address"]), sys.stdout)
