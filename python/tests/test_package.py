"""The package as it is installed: types, what it loads, and a client that runs beside it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

import eodispatch

from .conftest import BOX, Demo

FOLDER = Path(__file__).parents[1]


def test_types_are_strict(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    source = Path(eodispatch.__file__).parent
    assert (source / "py.typed").exists()
    command = [sys.executable, "-m", "mypy", "--config-file", str(FOLDER / "pyproject.toml")]
    checked = subprocess.run(
        [*command, "--cache-dir", str(tmp_path), "-p", "eodispatch"], capture_output=True, text=True, cwd=tmp_path
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_it_needs_no_extra_to_be_imported() -> None:
    heavy = "{'pandas', 'geopandas', 'numpy', 'xarray', 'rasterio', 'odc.stac'}"
    code = f"import sys, eodispatch; sys.exit(', '.join({heavy} & set(sys.modules)) or None)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr


def test_what_to_install_is_said(c: eodispatch.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "geopandas", "odc.stac"):
        monkeypatch.setitem(sys.modules, name, None)
    job = c.service("ndvi_scene").run(BOX)
    for call, extra in ((job.failures, "geo"), (job.tiles, "geo"), (job.to_pandas, "geo"), (job.to_xarray, "xarray")):
        with pytest.raises(ImportError, match=rf"pip install 'eodispatch\[{extra}\]'"):
            call()


def test_the_client_of_the_apex_dispatch_api_runs_beside_it(demo: Demo, c: eodispatch.Connection) -> None:
    apex = pytest.importorskip("apex_dispatch_api_client")
    from apex_dispatch_api_client.api.unit_jobs import get_job_unit_jobs_job_id_get as get_job

    job = c.service("ndvi_composite").run(BOX, "2024-06", format="gtiff").wait()
    with apex.AuthenticatedClient(base_url=demo.broker, token=demo.token()) as other:
        assert get_job.sync(job.id, client=other).status.value == job.status == "finished"


def test_the_licence_and_the_python_versions() -> None:
    found = metadata("eodispatch")
    assert found["License-Expression"] == "Apache-2.0" and found["Requires-Python"] == ">=3.10"
    assert set(found.get_all("Provides-Extra") or ()) == {"geo", "xarray"}
    assert (FOLDER / "LICENSE").read_text() == (FOLDER.parent / "LICENSE").read_text()
