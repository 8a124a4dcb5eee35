"""The lines of the documentation, run as they stand in a notebook."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from .conftest import Demo

ROOT = Path(__file__).parents[2]

pytest.importorskip("odc.stac")


def blocks(file: str) -> list[str]:
    """The blocks of Python in a file that use the package."""
    found = re.findall(r"^```python\n(.*?)^```$", (ROOT / file).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return found if any("import eodispatch" in block for block in found) else []


async def run(file: str) -> dict[str, Any]:
    """Run the blocks one after the other, and return the names that they define."""
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks(file), 1):
        code = compile(block, f"{file}, block {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)  # with await at the top level, as in a notebook
        if inspect.isawaitable(result):
            await result
    names["c"].close()
    return names


@pytest.fixture(autouse=True)
def shell(demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables and the folder of a user's shell."""
    monkeypatch.setenv("EODISPATCH_BROKER", demo.broker)
    monkeypatch.setenv("EODISPATCH_TOKEN", demo.token())
    monkeypatch.chdir(tmp_path)


def test_the_readme(tmp_path: Path) -> None:
    names = asyncio.run(run("README.md"))
    assert len(list(tmp_path.glob("ndvi/20x20km-*/2024-06-01.tif"))) == 14
    assert dict(names["cube"].sizes)["time"] == 1


def test_the_manual(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = asyncio.run(run("docs/python.md"))
    shown = capsys.readouterr().out
    assert shown.startswith("alice\n") and "jobs      14" in shown and "VALIDATION_ERROR" in shown
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.tif")) == [
        f"seasons/{name}, {season}.tif" for name in ("north", "south") for season in ("spring", "summer")
    ]
    assert -1 < names["mean"] < 1 and len(names["table"]) == 2 and len(names["items"]) == 4
