"""The bar that shows how far a job or a task is."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from .display import in_notebook, printable

if TYPE_CHECKING:
    from .runs import Run


def bar_of(progress: bool | None, **settings: Any) -> Any:
    """A bar of tqdm. None: shown on a terminal and in a notebook."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a notebook without ipywidgets shows the bar as text
        from tqdm.auto import tqdm
    if progress is None:
        progress = in_notebook() or sys.stderr.isatty()
    return tqdm(disable=not progress, **settings)


class Bar:
    """The progress of a job or a task, in percent, with its status in words."""

    def __init__(self, run: Run, progress: bool | None) -> None:
        layout = "{desc} {percentage:3.0f}%|{bar}| {unit} [{elapsed}]"
        self._bar = bar_of(progress, total=100, desc=str(run), unit=run.status, bar_format=layout)
        self._attention = ""

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def show(self, run: Run) -> None:
        """Show how far it is, and once why it waits for its owner."""
        self._bar.unit, self._bar.n = run.state(), run.progress
        self._bar.refresh()
        if run.attention and run.attention != self._attention:
            self._bar.write(printable(f"{run}: {run.attention}"), file=sys.stderr)
        self._attention = run.attention
