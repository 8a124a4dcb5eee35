"""Runs the openEO Python client against a broker whose platforms do not speak openEO.

Reads {"broker": URL, "token": …, "lines": Python of docs/clients.md} from standard input, and writes what the client found as JSON.
"""

import contextlib
import json
import sys

import openeo

given = json.load(sys.stdin)
names = {"openeo": openeo, "broker": given["broker"], "token": given["token"]}

with contextlib.redirect_stdout(sys.stderr):
    exec(compile(given["lines"], "docs/clients.md", "exec"), names)
    connection, job = names["everywhere"], names["service_job"]
    files = job.get_results().download_files("results")
    processes = [p["id"] for p in connection.list_processes()]
    services = [p["id"] for p in connection.list_processes("catalogue")]

json.dump({
    "status": job.status(),
    "collections": connection.list_collection_ids(),
    "processes": processes,
    "services": services,
    "files": len(files),
    "jobs": len(connection.list_jobs()),
    "user": connection.describe_account()["user_id"],
}, sys.stdout)
