"""Runs openeo-test-suite and schemathesis against an openEO back-end.

Reads {"root": URL with a slash at its end, "token": …, "standards": folder, "all": bool} from standard input. The folder has the document of the
standard (openeo-api-1.2.0) and the data that the package of openeo-test-suite lacks. Without all, tests that wait for batch jobs are left out, and
schemathesis sends a few requests to each operation in place of thousands. It writes the names of the tests that failed or were skipped, what
schemathesis said of each operation that failed, and the operations to which it sent nothing, as JSON. It fails if either does not run to its end.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import openeo
import openeo_test_suite
import pytest
from openeo_test_suite.lib import compliance_util

given = json.load(sys.stdin)
standards = pathlib.Path(given["standards"])
document = standards / "openeo-api-1.2.0/openapi.yaml"


class Outcomes:
    passed, failed, skipped = 0, [], []

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed.append("collecting " + report.nodeid)
        elif report.skipped:
            self.skipped.append("collecting " + report.nodeid)

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("::")[-1]
        if report.failed:
            self.failed.append(name if report.when == "call" else f"{report.when} of {name}")
        elif report.skipped:
            self.skipped.append(name)
        elif report.when == "call":
            self.passed += 1


def suite(folder):
    """Runs the tests of the API. They look for their data below the working directory, and sign in by a browser."""
    (folder / "assets/openeo-api").mkdir(parents=True)
    shutil.copy(document, folder / "assets/openeo-api")
    shutil.copytree(standards / "openeo-test-suite/src", folder / "src")
    shutil.copy(pathlib.Path(openeo_test_suite.__file__).parent / "tests/general/test_compliance.py", folder)
    compliance_util._guess_root = lambda: folder / "assets/openeo-api"
    openeo.Connection.authenticate_oidc = lambda self, **_: self.authenticate_oidc_access_token(given["token"])
    os.chdir(folder)
    outcomes, options = Outcomes(), [] if given["all"] else ["-m", "not longrunning"]
    code = pytest.main(["-q", "-W", "ignore", "-p", "no:cacheprovider", "-p", "openeo_test_suite.lib.pytest_plugin", "test_compliance.py", "-U", given["root"], *options],
                       plugins=[outcomes])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {code!r}")
    return outcomes


def requests(folder):
    """Sends requests that the document describes, and checks what comes back against it."""
    phases = ["--phases", "examples,coverage,fuzzing", "-n", "10"] if given["all"] else ["--phases", "examples,fuzzing", "-n", "1"]
    report = folder / "report.xml"
    done = subprocess.run(
        [str(pathlib.Path(sys.executable).parent / "schemathesis"), "run", str(document), "-u", given["root"].rstrip("/"), "-H", "Authorization: Bearer " + given["token"],
         "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance", "--continue-on-failure",
         "--generation-deterministic", "--no-color", "--request-timeout", "60", "--report-junit-path", str(report),
         "--exclude-path-regex", "^/(result|services|files|subscription|credentials/basic)", *phases], capture_output=True, text=True, cwd=folder)
    print(done.stdout, done.stderr, file=sys.stderr)
    if done.returncode not in (0, 1):  # 1: something failed
        raise RuntimeError(f"schemathesis ended with {done.returncode}")
    import xml.etree.ElementTree as tree
    cases = tree.parse(report).getroot().iter("testcase")
    cases = list(cases)
    untried = sorted(c.get("name") for c in cases if c.find("skipped") is not None)
    all = {c.get("name"): [(f.get("message") or "") + " " + (f.text or "") for f in [*c.findall("failure"), *c.findall("error")]] for c in cases}
    faults = {name: texts for name, texts in all.items() if texts}
    if done.returncode == 1 and not faults:
        raise RuntimeError("schemathesis failed, and its report does not say where")
    return {"operations": len(all), "faults": faults, "untried": untried}


with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
    sent = requests(pathlib.Path(two))
    outcomes = suite(pathlib.Path(one))
json.dump({"passed": outcomes.passed, "failed": sorted(outcomes.failed), "skipped": sorted(outcomes.skipped), **sent}, sys.stdout)
