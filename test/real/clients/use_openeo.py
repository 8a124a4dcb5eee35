"""Runs the openEO Python client against the broker.

Reads {"broker": URL, "token": …, "user": …, "password": …, "lines": [Python of docs/clients.md], "manager": …} from standard input, runs these
lines, which leave the connection, the finished job and its files, and asks for what else the client can do. It writes what it found as JSON.
"""

import contextlib
import json
import sys

import openeo
import requests
from openeo.rest.auth.oidc import DefaultOidcClientGrant as Grant

given = json.load(sys.stdin)
names = {"broker": given["broker"], "token": given["token"]}
newest = hasattr(openeo.Connection, "authenticate_oidc_access_token")


def run(lines):
    """Runs lines of the documentation. Before 0.31 the client signs in itself."""
    if not newest:
        sign_in = f".authenticate_oidc_resource_owner_password_credentials(client_id={given['client']!r}, username={given['user']!r}, password={given['password']!r})"
        lines = lines.replace(".authenticate_oidc_access_token(token)", sign_in)
    exec(compile(lines, "docs/clients.md", "exec"), names)


with contextlib.redirect_stdout(sys.stderr):
    for lines in given["lines"]:
        run(lines)
    connection, job = names["connection"], names["job"]

    # what the device flow begins with: no client is named
    _, client = connection._get_oidc_provider_and_client_info(
        provider_id=None, client_id=None, client_secret=None,
        default_client_grant_check=lambda grants: Grant.REFRESH_TOKEN in grants and (Grant.DEVICE_CODE in grants or Grant.DEVICE_CODE_PKCE in grants))

    graph = {"sum": {"process_id": "add", "arguments": {"x": {"from_parameter": "a"}, "y": 2}, "result": True}}
    connection.save_user_defined_process("my_sum", graph, parameters=[{"name": "a", "description": "", "schema": {"type": "number"}}])
    own = [p["id"] for p in connection.list_user_defined_processes()]
    used = {"u": {"process_id": "my_sum", "arguments": {"a": 1}, "result": True}}
    faults = list(connection.validate_process_graph(used))
    second = connection.create_job(used, title="with a process of one's own")
    second.start_and_wait()

    asset = job.get_results().get_assets()[0].href
    services = [p["id"] for p in names["everywhere"].list_processes("catalogue")]
    jobs = len(connection.list_jobs())
    managed = {}
    if newest:
        run(given["manager"])
        rows = names["database"].read()
        managed = (rows["backend_name"] + " " + rows["status"]).value_counts().to_dict()

    head = requests.head(asset)
    ranged = requests.get(asset, headers={"Range": "bytes=0-9"})

with open("now.tiff", "rb") as file:
    now = file.read(4)

json.dump({
    "now": now.hex(),
    "total": names["total"],
    "versions": [openeo.connect(given["broker"] + "/openeo/simulated-openeo" + path).capabilities().api_version() for path in ("/1.2", "")],
    "version": openeo.__version__,
    "status": job.status(),
    "issuer": client.provider.issuer,
    "client": client.client_id,
    "user": connection.describe_account()["user_id"],
    "collections": connection.list_collection_ids(),
    "described": connection.describe_collection("SENTINEL2_L2A")["id"],
    "processes": len(connection.list_processes()),
    "files": [f.name for f in names["files"]],
    "own": own,
    "faults": faults,
    "with_own": second.status(),
    "jobs": jobs,
    "asset": asset,
    "service": names["service_job"].status(),
    "services": sorted(services),
    "managed": managed,
    "logs": len(list(job.logs())),
    "head": head.status_code,
    "ranged": ranged.status_code,
}, sys.stdout)
