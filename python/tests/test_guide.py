"""The notebook, from an empty home folder to a map."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from .conftest import Demo

nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
pytest.importorskip("matplotlib")

GUIDE = Path(__file__).parents[1] / "guide.ipynb"


class Reader(nbclient.NotebookClient):  # type: ignore[misc,name-defined]
    """Runs a notebook as its reader does, who opens the link that is shown and chooses alice there."""

    def process_message(self, message: Any, cell: Any, index: int) -> Any:
        """Look at what a cell shows."""
        shown = message["content"].get("data", {}).get("text/html", "")
        for address in re.findall(r'href="(http://\S+/device\?user_code=\S+?)"', shown):
            httpx.get(unescape(address) + "&as=alice")
        return super().process_message(message, cell, index)


def test_from_nothing_to_a_map(demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EODISPATCH_BROKER", demo.broker)
    notebook = nbformat.read(GUIDE, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "the notebook is kept without its outputs"
    Reader(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = "".join(str(output.get("data", {})) + output.get("text", "") for output in outputs)
    assert "Open this page to sign in" in shown and "<td>Greenest NDVI of a season</td>" in shown
    assert "Traceback" not in shown and "Warning" not in shown, shown
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    mean = re.search(r"mean NDVI of Flanders: (-?\d\.\d\d)", shown)
    assert mean and -1 < float(mean[1]) < 1
    files = list((tmp_path / "flanders/2024-06-01").glob("20x20km-*.tif"))
    assert 40 < len(files) < 100 and f"{len(files)} finished" in shown
