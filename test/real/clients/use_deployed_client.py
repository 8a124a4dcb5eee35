"""Runs all operations of a Python client that was generated from the document of the APEx Dispatch API, or from that of the broker.

Reads {"broker": URL, "token": …, "openeo": URL, "ogc": URL, "package": name of the client} from standard input, and writes what the client
made of the responses as JSON. With "generate" the client is first generated from the broker's own document, into the working folder.
"""

import importlib
import json
import os
import subprocess
import sys
import time

given = json.load(sys.stdin)
package = given["package"]
if given.get("generate"):
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # where the generator's formatter is
    subprocess.run([sys.executable, "-m", "openapi_python_client", "generate", "--url", given["broker"] + "/openapi.json",
                    "--output-path", package, "--meta", "none", "--fail-on-warning"],
                   check=True, stdout=sys.stderr, env={**os.environ, "PATH": path})
    sys.path.insert(0, os.getcwd())


def operation(name):
    return importlib.import_module(f"{package}.api.{name}")


models = importlib.import_module(f"{package}.models")
unit, upscale = "unit_jobs", "upscale_tasks"
broker = importlib.import_module(package).AuthenticatedClient(base_url=given["broker"], token=given["token"])
ENDED = (models.ProcessingStatusEnum.FINISHED, models.ProcessingStatusEnum.FAILED, models.ProcessingStatusEnum.CANCELED)
AREA = {"west": 5.05, "south": 51.2, "east": 5.15, "north": 51.25}
SPAN = ["2024-06-01", "2024-07-01"]


def service(protocol, application):
    return models.ServiceDetails(endpoint=given[protocol], application=application)


def job(parameters):
    return models.BaseJobRequest(title="NDVI", label=models.ProcessTypeEnum.OPENEO, service=service("openeo", "ndvi_composite"),
                                 parameters=models.BaseJobRequestParameters.from_dict(parameters), format_=models.OutputFormatEnum.GTIFF)


def ended(read):
    """Reads until the status is a final one."""
    until = time.monotonic() + 120
    while True:
        current = read()
        if current.status in ENDED or time.monotonic() > until:
            return current
        time.sleep(0.2)


found = {}
found["health"] = operation("default.health_health_get").sync_detailed(client=broker).status_code

params = operation(unit + ".get_job_params_params_post")
for protocol, label, application in [("openeo", models.ProcessTypeEnum.OPENEO, "ndvi_composite"), ("ogc", models.ProcessTypeEnum.OGC_API_PROCESS, "echo")]:
    listed = params.sync(client=broker, body=models.ParamRequest(label=label, service=service(protocol, application)))
    found[protocol + "_types"] = {p.name: p.type_.value for p in listed}

whole = {"spatial_extent": AREA, "temporal_extent": SPAN}
created = operation(unit + ".create_unit_job_unit_jobs_post").sync(client=broker, body=job(whole))
found["created"] = [type(created).__name__, created.status.value, created.label.value, created.service.endpoint, created.parameters.to_dict() == whole]

get = operation(unit + ".get_job_unit_jobs_job_id_get")
done = ended(lambda: get.sync(created.id, client=broker))
found["job"] = [type(done).__name__, done.status.value, done.id == created.id, done.created <= done.updated]

results = operation(unit + ".get_job_results_unit_jobs_job_id_results_get").sync(created.id, client=broker)
found["results"] = [type(results).__name__, results.id != "", sorted(results.to_dict()["assets"])]

ran = operation(unit + ".create_sync_job_sync_jobs_post").sync_detailed(client=broker, body=job(whole))
found["sync"] = [ran.status_code, len(ran.content) > 1000]

polygon = {"type": "Polygon", "coordinates": [[[5.0, 51.0], [5.4, 51.0], [5.4, 51.2], [5.0, 51.2], [5.0, 51.0]]]}
tiles = operation(upscale + ".split_in_tiles_tiles_post").sync(
    client=broker, body=models.TileRequest.from_dict({"aoi": polygon, "grid": models.GridTypeEnum.VALUE_0.value}))
values = tiles.to_dict()["geometries"]
found["tiles"] = [type(tiles).__name__, len(values) > 1, {g["type"] for g in values} == {"Polygon"}]

task = operation(upscale + ".create_upscale_task_upscale_tasks_post").sync(client=broker, body=models.UpscalingTaskRequest(
    title="NDVI", label=models.ProcessTypeEnum.OPENEO, service=service("openeo", "ndvi_composite"), format_=models.OutputFormatEnum.GTIFF,
    parameters=models.UpscalingTaskRequestParameters.from_dict({"temporal_extent": SPAN}),
    dimension=models.ParameterDimension(name="spatial_extent", values=values[:2])))
assert type(task) is models.UpscalingTaskSummary, task
follow = operation(upscale + ".get_upscale_task_upscale_tasks_task_id_get")
followed = ended(lambda: follow.sync(task.id, client=broker))
found["task"] = [type(task).__name__, type(followed).__name__, followed.status.value, [j.title for j in followed.jobs]]

listing = operation(upscale + ".get_jobs_status_jobs_status_get")
listed = listing.sync(client=broker, filter_=[models.JobsFilter.PROCESSING, models.JobsFilter.UPSCALING])
found["list"] = [type(listed).__name__, task.id in [t.id for t in listed.upscaling_tasks], created.id in [j.id for j in listed.processing_jobs]]

deletion = operation(unit + ".delete_job_unit_jobs_job_id_delete").sync_detailed(created.id, client=broker)
found["deleted"] = [deletion.status_code, deletion.parsed]
missing = get.sync(created.id, client=broker)
found["missing"] = [type(missing).__name__, missing.error_code]
refused = operation(unit + ".create_unit_job_unit_jobs_post").sync(client=broker, body=job({"temporal_extent": SPAN}))
found["refused"] = [type(refused).__name__, refused.detail[0].loc]

json.dump(found, sys.stdout)
