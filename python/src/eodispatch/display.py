"""What is shown in a terminal and in a notebook."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")

_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_TURNS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def in_notebook() -> bool:
    """Whether this runs in a notebook, which shows HTML."""
    shell = sys.modules.get("IPython")
    kernel = shell.get_ipython() if shell else None
    return kernel is not None and "IPKernelApp" in getattr(kernel, "config", {})


def show_link(address: str, code: str) -> None:
    """Ask the user to open a page, and say which code it shows."""
    text = f"Open this page to sign in: {address}\nIt shows the code {code}. Waiting for your sign-in …"
    if in_notebook():
        from IPython.display import HTML, display

        link = f'<a href="{escape(address)}" target="_blank" rel="noopener">{escape(address)}</a>'
        display(HTML(f"Open this page to sign in: {link}<br>It shows the code {escape(code)}."))
    else:
        print(printable(text), flush=True)


def printable(text: str) -> str:
    """A text of others without what steers a terminal, or shows a text in another order."""
    return _TURNS.sub("", _STEERS.sub(" ", text))


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in HTML. Texts of brokers and platforms are escaped."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def text_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table for a terminal."""
    lines = [list(columns), *([_one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines)


def _cell(value: Any) -> str:
    return "" if value is None else escape(str(value))


def _one_line(value: Any, most: int = 60) -> str:
    text = "" if value is None else " ".join(str(value).split())
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"


class Table(Sequence[T], Generic[T]):
    """A list that is shown as a table."""

    columns: Sequence[str] = ()

    def __init__(self, elements: Iterable[T]) -> None:
        self._elements = list(elements)

    def row(self, element: T) -> Sequence[Any]:
        """The cells of an element."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self._elements[index]

    def __len__(self) -> int:
        return len(self._elements)

    def __repr__(self) -> str:
        return text_table(self.columns, map(self.row, self))

    def _repr_html_(self) -> str:
        return html_table(self.columns, map(self.row, self))
