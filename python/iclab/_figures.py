"""Figures and tables that a notebook shows."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, overload

from . import _iclab
from ._errors import ArgumentError

if TYPE_CHECKING:
    import pandas


class Figure:
    """A figure: shown in notebooks, saved as SVG, PNG or CSV."""

    def __init__(self, findings: _iclab.Findings, id: str, title: str, caption: str) -> None:
        self._findings = findings
        self.id = id
        self.title = title
        self.caption = caption

    @property
    def svg(self) -> str:
        """The picture."""
        return self._findings.svg(self.id)

    @property
    def csv(self) -> str:
        """The numbers that it shows."""
        return self._findings.csv(self.id)

    def png(self, scale: float = 2.0) -> bytes:
        """The picture in pixels."""
        return bytes(self._findings.png(self.id, scale))

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes it; the ending says how: ``.svg``, ``.png`` or ``.csv``."""
        target = Path(fspath(path))
        if target.suffix == ".svg":
            target.write_text(self.svg, encoding="utf-8")
        elif target.suffix == ".png":
            target.write_bytes(self.png())
        elif target.suffix == ".csv":
            target.write_text(self.csv, encoding="utf-8")
        else:
            raise ArgumentError(f"path is {str(target)!r}; accepted: a name that ends in .svg, .png or .csv")
        return target

    def _repr_html_(self) -> str:
        return f'<figure style="margin:0">{self.svg}<figcaption>{html.escape(self.caption)}</figcaption></figure>'

    def __repr__(self) -> str:
        return f"<Figure {self.id}: {self.title}>"


class Figures(Sequence[Figure]):
    """The figures of a result, by position or by id."""

    def __init__(self, findings: _iclab.Findings) -> None:
        self._all = [Figure(findings, *head) for head in findings.figures]

    @overload
    def __getitem__(self, which: int | str) -> Figure: ...
    @overload
    def __getitem__(self, which: slice) -> list[Figure]: ...
    def __getitem__(self, which: int | str | slice) -> Figure | list[Figure]:
        if isinstance(which, str):
            for figure in self._all:
                if figure.id == which:
                    return figure
            ids = ", ".join(figure.id for figure in self._all)
            raise KeyError(f"there is no figure {which!r}; accepted: {ids}")
        return self._all[which]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Figure]:
        return iter(self._all)

    def _repr_html_(self) -> str:
        return "".join(figure._repr_html_() for figure in self._all)

    def __repr__(self) -> str:
        return repr(self._all)


@dataclass(frozen=True)
class Table:
    """A table of text."""

    id: str
    title: str
    caption: str
    columns: list[str]
    rows: list[list[str]]

    def to_pandas(self) -> pandas.DataFrame:
        """As a data frame of text."""
        import pandas

        return pandas.DataFrame(self.rows, columns=self.columns)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(column)}</th>" for column in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        return f"<table><caption>{html.escape(self.title)}</caption><tr>{head}</tr>{body}</table>"


class Shown:
    """What every result has: words, figures, tables, and a page."""

    def __init__(self, findings: _iclab.Findings) -> None:
        self._findings = findings

    @property
    def title(self) -> str:
        """What was asked."""
        return self._findings.title

    @property
    def answer(self) -> str:
        """What was found, in a sentence or two."""
        return self._findings.answer

    @property
    def summary(self) -> str:
        """How it was measured."""
        return self._findings.summary

    @property
    def notes(self) -> list[str]:
        """What a reader must know before believing it."""
        return self._findings.notes

    @property
    def figures(self) -> Figures:
        """All figures."""
        return Figures(self._findings)

    @property
    def figure(self) -> Figure:
        """The first figure."""
        figures = self.figures
        if not figures:
            raise ArgumentError(f"{self.title}: there is no figure")
        return figures[0]

    @property
    def tables(self) -> list[Table]:
        """All tables."""
        return [Table(*head, columns, rows) for head, columns, rows in self._findings.tables]

    def save(self, directory: str | PathLike[str]) -> Path:
        """Writes a page with figures and tables into a directory; returns the page."""
        return Path(self._findings.save(fspath(directory)))

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        notes = f"<ul>{notes}</ul>" if notes else ""
        picture = self.figure._repr_html_() if self.figures else ""
        title = self.title if self.title.endswith(("?", ".")) else f"{self.title}."
        return f"<p><b>{html.escape(title)}</b> {html.escape(self.answer)}</p>{notes}{picture}"
