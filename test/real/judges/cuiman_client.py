"""Runs cuiman, Eozilla's client of OGC API - Processes, against a server.

Reads {"broker": URL, "token": …, "lines": Python of docs/clients.md} from standard input, runs these lines, which leave the client, the job and its
results, and asks for what else the client can do. It writes what it found as JSON.
"""

import contextlib
import json
import sys

from cuiman import ClientError

given = json.load(sys.stdin)
names = {"broker": given["broker"], "token": given["token"]}

with contextlib.redirect_stdout(sys.stderr):
    exec(compile(given["lines"], "docs/clients.md", "exec"), names)
    client, job, request = names["client"], names["job"], names["request"]
    second = client.execute_process("ndvi_scene", request)
    dismissed = client.dismiss_job(second.jobID).status.value
    try:
        client.get_process("nothing")
        unknown = ""
    except ClientError as e:
        unknown = e.api_error.type

json.dump({
    "links": len(client.get_capabilities().links),
    "classes": len(client.get_conformance().conformsTo),
    "processes": sorted(p.id for p in client.get_processes().processes),
    "inputs": sorted(client.get_process("ndvi_scene").inputs),
    "status": job.status.value,
    "results": names["results"],
    "dismissed": dismissed,
    "unknown": unknown,
    "jobs": len(client.get_jobs().jobs),
}, sys.stdout)
