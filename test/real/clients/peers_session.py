"""Creates and starts jobs at an openEO back-end, one after the other, over one session: peers_session.py URL N."""

import sys

import requests

url, n = sys.argv[1] + "/openeo/1.2/jobs", int(sys.argv[2])
graph = {"add": {"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": True}}
session = requests.Session()
print("begin", flush=True)
for _ in range(n):
    created = session.post(url, json={"process": {"process_graph": graph}})
    created.raise_for_status()
    session.post(f"{url}/{created.headers['OpenEO-Identifier']}/results").raise_for_status()
