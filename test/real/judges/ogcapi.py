"""Runs clients of OGC API - Processes against a server.

Reads {"broker": URL, "token": …, "lines": {client: Python of docs/clients.md}, "processes": {id: inputs}, "tiled": {id: inputs}} from standard
input. It runs the lines of each client, which leave the status of a job in `job` and its results in `results`, then reads every response with
the strict models of gavicore, on which cuiman stands. It writes {"lines": {client: status}, "results": [STAC Collections], "dismissed": [statuses], "items": [STAC Items
of the tiles], "found": [Collections and Items of the STAC API]}.
"""

import contextlib
import json
import sys
import time

import pystac
import requests
from gavicore.models import ApiError, Capabilities, ConformanceDeclaration, JobInfo, JobList, JobResults, ProcessDescription, ProcessList
from ogc_api_processes_client.api_client_wrapper import ApiClientWrapper
from ogc_api_processes_client.configuration import Configuration
from pystac_client import Client, ItemSearch
from pystac_client.stac_api_io import StacApiIO


def collection(value):
    """Returns a STAC Collection, which pystac must read."""
    if not pystac.Collection.from_dict(value).assets:
        raise ValueError("the results have no assets")
    return value


def run_lines(given):
    """Runs the lines of the documentation."""
    ended, results = {}, []
    for client, lines in given["lines"].items():
        names = {"broker": given["broker"], "token": given["token"]}
        with contextlib.redirect_stdout(sys.stderr):
            exec(compile(lines, client, "exec"), names)
        ended[client] = names["job"]["status"]
        results.append(collection(names["results"]))
    return ended, results


class Strict:
    """Reads responses with the models of gavicore. It sends no Prefer and accepts only 201, as cuiman does."""

    def __init__(self, root, token):
        self.root, self.session = root, requests.Session()
        self.session.headers["Authorization"] = "Bearer " + token

    def get(self, model, path, status=200):
        answer = self.session.get(self.root + path)
        return self.read(model, answer, status)

    def read(self, model, answer, status):
        if answer.status_code != status or answer.headers["Content-Type"] != "application/json":
            raise ValueError(f"{answer.status_code} {answer.headers['Content-Type']}: {answer.text}")
        return model.model_validate(answer.json())

    def use(self, process, inputs):
        """Describes, executes and follows a process to its results."""
        described = self.get(ProcessDescription, "/processes/" + process)
        if not described.inputs or not described.outputs:
            raise ValueError(process + " has no inputs or outputs")
        for response in ("document", "raw"):
            answer = self.session.post(self.root + f"/processes/{process}/execution", json={"inputs": inputs, "response": response})
            job = self.read(JobInfo, answer, 201)
            while job.status.value in ("accepted", "running"):
                time.sleep(0.2)
                job = self.get(JobInfo, "/jobs/" + job.jobID)
            self.get(JobResults, f"/jobs/{job.jobID}/results")
        return job.jobID


def strict(given):
    """Uses all operations, and returns the statuses of dismissed jobs."""
    server = Strict(given["broker"] + "/ogcapi", given["token"])
    server.get(Capabilities, "/")
    server.get(ConformanceDeclaration, "/conformance")
    listed = {p.id for p in server.get(ProcessList, "/processes").processes}
    if not listed >= set(given["processes"]):
        raise ValueError(f"listed are {listed}")
    dismissed = []
    for process, inputs in given["processes"].items():
        job = server.use(process, inputs)
        dismissed.append(server.read(JobInfo, server.session.delete(server.root + "/jobs/" + job), 200).status.value)
        server.get(ApiError, "/jobs/" + job, 404)
    server.get(JobList, "/jobs?limit=100")
    server.get(ApiError, "/processes/nothing", 404)
    return dismissed


def generated(given):
    """Uses the generated client of EOEPCA for all operations. Its models cannot write lists of numbers, so that inputs go as they are."""
    server = ApiClientWrapper(Configuration(host=given["broker"] + "/ogcapi"), "Authorization", "Bearer " + given["token"])
    headers = {"Authorization": "Bearer " + given["token"], "Content-Type": "application/json"}
    server.get_landing_page()
    server.get_conformance_classes()
    server.get_processes()
    for process, inputs in given["processes"].items():
        server.get_process_description(process)
        job = server.execute_simple(process, {"inputs": inputs, "response": "document"}, _headers=headers)
        server.get_status(job.job_id)
        server.dismiss(job.job_id)
    server.get_jobs()


def tiled(given):
    """Runs a task over tiles. pystac-client reads the Items of its results, which are in pages."""
    session = requests.Session()
    session.headers["Authorization"] = "Bearer " + given["token"]
    process, inputs = next(iter(given["tiled"].items()))  # the only one
    job = session.post(given["broker"] + f"/ogcapi/processes/{process}/execution", json={"inputs": inputs, "response": "document"})
    at = job.headers["Location"]
    while (status := session.get(at).json()["status"]) in ("accepted", "running"):
        time.sleep(0.2)
    if status != "successful":
        raise ValueError(f"the task is {status}")
    whole = pystac.Collection.from_dict(session.get(session.get(at + "/results").json()["stac"]["href"]).json())
    items = next(link for link in whole.links if link.rel == "items").target
    search = ItemSearch(url=items, method="GET", limit=5, stac_io=StacApiIO(headers={"Authorization": "Bearer " + given["token"]}))
    return [item.to_dict(include_self_link=False, transform_hrefs=False) for item in search.items()]


def searched(given, items):
    """Finds the Items of the tiles by pystac-client at the STAC API, in each way that it knows, once their results were read."""
    client = Client.open(given["broker"] + "/stac", headers={"Authorization": "Bearer " + given["token"]})
    box = [5.0, 51.0, 5.8, 51.5]
    area = {"type": "Polygon", "coordinates": [[[5, 51], [5.8, 51], [5.8, 51.5], [5, 51.5], [5, 51]]]}
    task = items[0]["properties"]["eodispatch:task"]
    ways = [{"bbox": box}, {"intersects": area}, {"collections": [f"task-{task}"], "method": "GET"}, {"bbox": box, "method": "GET"},
            {"query": [f"eodispatch:task={task}"]}, {"datetime": "1970-01-01/2100-01-01", "collections": [f"task-{task}"]}]
    deadline, wanted = time.time() + 120, {item["id"] for item in items}
    for way in ways:
        while True:
            found = list(client.search(limit=5, **way).items())
            if wanted <= {item.id for item in found}:
                break
            if time.time() > deadline:
                raise ValueError(f"{way}: {len(found)} of {len(wanted)} Items")
            time.sleep(1)
    collections = {c.id: c for c in client.get_collections()}
    listed = {item.id for item in collections[f"task-{task}"].get_items()}
    if listed != wanted or client.get_collection("results").id != "results":
        raise ValueError(f"the Collection of the task has {listed}")
    one = collections["results"].get_item(items[0]["id"])
    return [c.to_dict(include_self_link=False, transform_hrefs=False) for c in collections.values()] + [
        item.to_dict(include_self_link=False, transform_hrefs=False) for item in [*found, one]]


def main():
    given = json.load(sys.stdin)
    lines, results = run_lines(given)
    dismissed = strict(given)
    generated(given)
    items = tiled(given) if given["tiled"] else []
    json.dump({"lines": lines, "results": results, "dismissed": dismissed, "items": items, "found": searched(given, items) if items else []}, sys.stdout)


main()
