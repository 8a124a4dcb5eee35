"""Has the job manager of openEO's client create and start jobs at a back-end: peers_manager.py URL N."""

import sys

import openeo
import pandas as pd
from openeo.extra.job_management import MultiBackendJobManager, create_job_db

url, n = sys.argv[1], int(sys.argv[2])
manager = MultiBackendJobManager(poll_sleep=1, root_dir="jobs", download_results=False)
manager.add_backend("far", connection=openeo.connect(url + "/openeo/1.2"), parallel_jobs=n)


def start_job(row, connection, **_):
    return connection.create_job({"add": {"process_id": "add", "arguments": {"x": 1, "y": 2}, "result": True}}, title=f"row {row.name}")


database = create_job_db("jobs.csv", df=pd.DataFrame({"row": range(n)}))
print("begin", flush=True)
manager.run_jobs(job_db=database, start_job=start_job)
