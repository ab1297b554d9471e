"""The paper's statements, measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from . import _iclab
from ._arrays import whole
from ._figures import Shown

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Claim:
    """A statement with its bound, what was measured, and the verdict."""

    id: str
    statement: str
    measured: float | None
    interval: tuple[float, float] | None
    verdict: str
    quoted: str
    numbers: dict[str, Any]
    """Everything else that the ledger has."""


class Analysis(Shown):
    """What one analysis found."""

    @property
    def id(self) -> str:
        """``F3``, ``N5``, …"""
        return self._findings.analysis

    @property
    def claims(self) -> list[Claim]:
        """Its claims."""
        rows: list[dict[str, Any]] = json.loads(self._findings.claims)
        return [
            Claim(
                row["id"],
                row["statement"],
                row["measured"],
                None if row["interval"] is None else (row["interval"][0], row["interval"][1]),
                row["verdict"],
                row["quoted"],
                row,
            )
            for row in rows
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each claim."""
        import pandas

        rows = [(c.id, c.statement, c.measured, *(c.interval or (None, None)), c.verdict) for c in self.claims]
        return pandas.DataFrame(rows, columns=["id", "statement", "measured", "low", "high", "verdict"]).set_index("id")

    def __repr__(self) -> str:
        return f"<{self.id}: {self.title} {self.answer}>"


def reproduce(
    only: Sequence[str] | str = (),
    *,
    prompts: int | None = None,
    seed: int = 0,
    models: str | PathLike[str] | None = None,
    cache: str | PathLike[str] | None = None,
    fresh: bool = False,
) -> list[Analysis]:
    """Measures the paper's statements: all analyses whose networks are there, or ``only`` some, such as ``["F3", "N5"]``.

    ``models``: folder of trained networks; ``models/`` here, or what the variable ICLAB_MODELS says, when left out. Findings
    are kept under ``cache`` (``.iclab/cache``) and measured again when something they rest on has changed, or ``fresh``.
    """
    wanted = [only] if isinstance(only, str) else list(only)
    count = None if prompts is None else whole(prompts, "prompts", 16, 1_000_000)
    found = _iclab.reproduce(
        wanted,
        count,
        whole(seed, "seed", 0, 2**64 - 1),
        None if models is None else fspath(models),
        None if cache is None else fspath(cache),
        fresh,
    )
    return [Analysis(findings) for findings in found]


def analyses() -> dict[str, str]:
    """Every analysis by its id, with what it asks."""
    return {id: title for id, title, _ in _iclab.analyses()}
