"""Spectral fingerprints: what a learner does to each eigen-direction of S = XᵀX."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from . import _iclab
from ._arrays import Estimate, Floats, Integers, Steps, step_text, whole
from ._errors import ArgumentError
from ._figures import Shown
from ._learners import Learner
from ._prompts import Prompts

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Candidate:
    """An algorithm that the learner may be."""

    name: str
    leaves: Estimate
    """Share of w − w_OLS that it leaves at its best steps, mean over the steps that say something."""
    tied: bool
    """Whether it is the closest, or cannot be told from it."""
    steps: list[int]
    """Its best step for each step of the learner."""
    left: list[float]
    """Share that it leaves at each step of the learner."""


@dataclass(frozen=True)
class AfterPairs:
    """A fingerprint after one number of pairs. Arrays of estimates end with an axis of value, low, high."""

    pairs: int
    eigenvalues: Floats
    """At which filters are measured [knots]."""
    filters: Floats
    """f [steps, knots, 3]: 1 is learned, 0 is not."""
    remaining: Floats
    """Share of ‖w_OLS‖² that is still to do [steps, 3]."""
    unexplained: Floats
    """Share of w − w_OLS that no filter explains, held out [steps, 3]."""
    exponents: Floats
    """p of 1 − exp(−(λ/λ_c)^p) [steps, 3]; not numbers where there is no shape."""
    map_a: Floats
    """a of f ← a f − b f² from each step to the next [steps − 1, 3]."""
    map_b: Floats
    """b of the same."""
    order: Floats
    """r of f ← 1 − (1−f)^r [steps − 1, 3]: 2 is one Newton iteration."""
    exponent: Estimate
    """Mean of the exponents: 1 for gradient descent and Newton from ηI, 2 for Newton from αS."""
    a: Estimate
    b: Estimate
    iterations: Estimate
    """Newton iterations that a step is worth, log₂ of the order, mean over steps."""


class Fingerprint(Shown):
    """What a learner does to each eigen-direction, and which algorithm that is."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(found["findings"])
        self._found = found

    @property
    def learner(self) -> str:
        """Whose."""
        return str(self._found["learner"])

    @property
    def steps(self) -> Integers:
        """Its steps."""
        steps: Integers = self._found["steps"]
        return steps

    @property
    def prompts(self) -> int:
        """Prompts it was taken from."""
        return int(self._found["prompts"])

    @property
    def names(self) -> list[str]:
        """The algorithms that the learner may be: none, one, or several that cannot be told apart."""
        return list(self._found["names"])

    @property
    def candidates(self) -> list[Candidate]:
        """All algorithms it was held against, the closest first."""
        rows = self._found["candidates"]
        return [Candidate(name, Estimate(*leaves), tied, steps, left) for name, leaves, tied, steps, left in rows]

    @property
    def after(self) -> dict[int, AfterPairs]:
        """The measurements by the number of pairs read."""
        estimates = {"exponent", "a", "b", "iterations"}
        rows: list[dict[str, Any]] = []
        for row in self._found["after"]:
            rows.append({key: Estimate(*of) if key in estimates else of for key, of in row.items()})
        return {row["pairs"]: AfterPairs(**row) for row in rows}

    @property
    def numbers(self) -> dict[str, Any]:
        """Everything as plain data: the ``result.json`` of ``iclab fingerprint``."""
        numbers: dict[str, Any] = json.loads(self._found["json"])
        return numbers

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each number of pairs, step and eigenvalue: the filter with its interval."""
        import pandas

        frames = []
        for pairs, after in self.after.items():
            steps, knots, _ = after.filters.shape
            columns = {
                "pairs": pairs,
                self._found["unit"]: self.steps.repeat(knots),
                "eigenvalue": list(after.eigenvalues) * steps,
                "filter": after.filters[:, :, 0].ravel(),
                "low": after.filters[:, :, 1].ravel(),
                "high": after.filters[:, :, 2].ravel(),
            }
            frames.append(pandas.DataFrame(columns))
        return pandas.concat(frames, ignore_index=True)

    def __repr__(self) -> str:
        return f"{self.title}\n{self.answer}"


def fingerprint(
    learner: str | PathLike[str] | Learner,
    against: Sequence[str] = (),
    prompts: Prompts | int | None = None,
    *,
    steps: Steps | None = None,
    pairs: Sequence[int] = (),
    queries: int | None = None,
    knots: int = 12,
    unit: str = "auto",
    seed: int = 0,
) -> Fingerprint:
    """Takes the spectral fingerprint of a learner and says which algorithm it is, if any.

    ``against``: algorithms it may be; the usual ones when left out. ``prompts``: how many, or which; 256 when left out.
    ``pairs``: after how many pairs it is asked; 5d/4, 3d/2 and 2d when left out. ``queries``: fresh queries per prompt.
    ``unit``: of the eigenvalues, ``"one"``, ``"largest"``, ``"norm"`` or ``"auto"``.
    """
    if isinstance(against, str):
        against = [part for part in against.split(";") if part]
    whose: Any
    if isinstance(learner, Learner):
        whose = learner._learner if learner._name is None else learner._name
    elif isinstance(learner, str):
        whose = learner
    elif isinstance(learner, PathLike):
        whose = f"run:{fspath(learner)}"
    else:
        kind = type(learner).__name__
        raise ArgumentError(f"learner is of type {kind}; accepted: a name, a learner, a model's directory as a path")
    how = {
        "against": list(against),
        "steps": step_text(steps),
        "pairs": [whole(length, "pairs", 1) for length in pairs],
        "queries": None if queries is None else whole(queries, "queries", 1),
        "knots": whole(knots, "knots", 1),
        "unit": unit,
        "seed": whole(seed, "seed", 0, 2**64 - 1),
    }
    given = prompts if isinstance(prompts, Prompts) else None
    count = None if given is not None or prompts is None else whole(prompts, "prompts", 1, 10_000_000)
    return Fingerprint(_iclab.fingerprint(whose, None if given is None else given._prompts, count, how))
