"""An openEO back-end for tests: openeo_driver, with its dummy collections, and batch jobs that pass by time.

On the wire all is openeo_driver's own: discovery, who may do what, errors, listings, results, signed addresses. Only what a
job does is made up here: it is queued, then runs as many seconds as an argument named `seconds` anywhere in its process
graph says (0.2 without one), then has finished with one file, or is in error when a process that it names by URL was not
given what it requires.

EODISPATCH_BASE is the address of the server, EODISPATCH_FOLDER a folder for its files. Any bearer token
`oidc/test/user.NAME` is the user NAME; all others are refused, as those are that have expired.
"""
import datetime
import os
import pathlib
import time

import flask
from openeo_driver.backend import BatchJobMetadata, BatchJobResultMetadata, BatchJobs, JobListing
from openeo_driver.constants import JOB_STATUS
from openeo_driver.dummy.dummy_backend import DummyBackendImplementation, DummyProcessing
from openeo_driver.errors import JobNotFinishedException, JobNotFoundException, OpenEOApiException
from openeo_driver.processgraph import get_process_definition_from_url
from openeo_driver.util.http import UrlSafeStructCodec
from openeo_driver.utils import generate_unique_id
from openeo_driver.views import build_app

BASE = os.environ["EODISPATCH_BASE"]
FOLDER = pathlib.Path(os.environ["EODISPATCH_FOLDER"])
QUEUED = 0.2
CURSOR = UrlSafeStructCodec(signature_field="_usc")


def utc(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def find(value, name):
    """The first argument of that name, at any depth."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and name in value:
        return value[name]
    return next((found for found in (find(v, name) for v in inner) if found is not None), None)


def missing_arguments(graph):
    """What the processes that the graph names by URL require and are not given."""
    for node in graph.values():
        url = node.get("namespace") or ""
        if not url.startswith("http"):
            continue
        process = get_process_definition_from_url(process_id=node["process_id"], url=url)
        for parameter in process.parameters or []:
            if not parameter.get("optional") and parameter["name"] not in node["arguments"]:
                yield f"Process '{process.id}' parameter '{parameter['name']}' is required."


class Job:
    def __init__(self, user_id, process, metadata, options):
        self.id = generate_unique_id(prefix="j")
        self.user_id, self.process, self.metadata, self.options = user_id, process, metadata, options
        self.created = time.time()
        self.start = self.canceled = None
        self.errors = []

    def begin(self):
        self.start, self.canceled = time.time(), None
        try:
            self.errors = list(missing_arguments(self.process["process_graph"]))
        except Exception as problem:  # whatever it is, it is the job's error
            self.errors = [str(problem)]

    @property
    def seconds(self):
        return float(find(self.process, "seconds") or 0.2)

    @property
    def status(self):
        if self.canceled:
            return JOB_STATUS.CANCELED
        if self.start is None:
            return JOB_STATUS.CREATED
        age = time.time() - self.start
        if age < QUEUED:
            return JOB_STATUS.QUEUED
        if age < QUEUED + self.seconds:
            return JOB_STATUS.RUNNING
        return JOB_STATUS.ERROR if self.errors else JOB_STATUS.FINISHED

    def cancel(self):
        if self.status in (JOB_STATUS.QUEUED, JOB_STATUS.RUNNING):
            self.canceled = True

    def describe(self):
        return BatchJobMetadata(
            id=self.id, status=self.status, created=utc(self.created), updated=utc(time.time()), process=self.process,
            title=self.metadata.get("title"), description=self.metadata.get("description"), job_options=self.options,
            bbox=[5.0, 50.0, 5.1, 50.1], epsg=4326, start_datetime=utc(1717200000), end_datetime=utc(1717286400),
            costs=1.5 if self.status == JOB_STATUS.FINISHED else None,
        )

    def file(self):
        path = FOLDER / self.id / "result.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"ndvi": 0.5}')
        return path

    def logs(self):
        yield "info", f"job {self.id} was created"
        if self.status == JOB_STATUS.ERROR:
            for error in self.errors:
                yield "error", error


class Jobs(BatchJobs):
    def __init__(self):
        super().__init__()
        self.all = {}

    def of(self, user_id, job_id):
        job = self.all.get(job_id)
        if job is None or job.user_id != user_id:
            raise JobNotFoundException(job_id)
        return job

    def create_job(self, user, process, api_version, metadata, job_options=None):
        job = Job(user.user_id, process, metadata, job_options)
        self.all[job.id] = job
        return job.describe()

    def start_job(self, job_id, user):
        self.of(user.user_id, job_id).begin()

    def get_job_info(self, job_id, user_id):
        return self.of(user_id, job_id).describe()

    def cancel_job(self, job_id, user_id):
        self.of(user_id, job_id).cancel()

    def delete_job(self, job_id, user_id):
        del self.all[self.of(user_id, job_id).id]

    def get_user_jobs(self, user_id, limit=None, request_parameters=None):
        mine = sorted((j for j in list(self.all.values()) if j.user_id == user_id), key=lambda j: (j.created, j.id), reverse=True)
        cursor = (request_parameters or {}).get("after")
        if cursor:
            last = tuple(CURSOR.decode(cursor))
            mine = [j for j in mine if (j.created, j.id) < last]
        more = None
        if limit and len(mine) > limit:
            mine = mine[:limit]
            more = {"limit": limit, "after": CURSOR.encode((mine[-1].created, mine[-1].id))}
        return JobListing(jobs=[j.describe() for j in mine], next_parameters=more)

    def get_result_assets(self, job_id, user_id):
        job = self.of(user_id, job_id)
        if job.status != JOB_STATUS.FINISHED:
            raise JobNotFinishedException
        path = job.file()
        return {path.name: {"output_dir": str(path.parent), "href": str(path), "type": "application/json", "roles": ["data"]}}

    def get_result_metadata(self, job_id, user_id):
        return BatchJobResultMetadata(assets=self.get_result_assets(job_id, user_id), links=[], providers=[])

    def get_log_entries(self, job_id, *, user_id, offset=None, limit=None, level="debug"):
        job = self.of(user_id, job_id)
        moment = utc(job.created).strftime("%Y-%m-%dT%H:%M:%SZ")
        return [{"id": str(n), "level": level, "message": text, "time": moment} for n, (level, text) in enumerate(job.logs())]


class Processing(DummyProcessing):
    """POST /result: what is named by URL is checked and answered with a document; all else computes as in the driver."""

    def evaluate(self, process_graph, env):
        if not any(str(node.get("namespace", "")).startswith("http") for node in process_graph.values()):
            return super().evaluate(process_graph=process_graph, env=env)
        for error in missing_arguments(process_graph):
            raise OpenEOApiException(status_code=400, code="ProcessParameterRequired", message=error)
        return flask.jsonify({"ndvi": 0.5})


class Backend(DummyBackendImplementation):
    def __init__(self):
        super().__init__(processing=Processing())
        self.batch_jobs = Jobs()

    def file_formats(self):
        formats = super().file_formats()
        for name, kind in (("JSON", "vector"), ("netCDF", "raster")):
            formats["output"][name] = {"title": name, "gis_data_types": [kind], "parameters": {}}
        return formats

    def user_access_validation(self, user, request):
        return user


app = build_app(backend_implementation=Backend())


@app.route("/oidc/.well-known/openid-configuration")
def discovery():
    return flask.jsonify({"issuer": f"{BASE}/oidc", "userinfo_endpoint": f"{BASE}/oidc/userinfo",
                          "token_endpoint": f"{BASE}/oidc/token", "jwks_uri": f"{BASE}/oidc/keys"})


@app.route("/oidc/token", methods=["POST"])
def token():
    """The client credentials grant: any client is the user of its name."""
    client = flask.request.authorization.username if flask.request.authorization else flask.request.form["client_id"]
    return flask.jsonify({"access_token": "user." + client, "token_type": "Bearer", "expires_in": 3600})


@app.route("/oidc/userinfo")
def userinfo():
    token = flask.request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not token.startswith("user."):
        return flask.jsonify({"error": "invalid_token"}), 401
    return flask.jsonify({"sub": token.removeprefix("user.")})
