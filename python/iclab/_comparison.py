"""Two learners side by side."""

from __future__ import annotations

import os
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from . import _iclab
from ._arrays import Estimate, Floats, Integers, Steps, floats, step_text, whole
from ._errors import ArgumentError
from ._figures import Shown
from ._learners import Learner, Trajectory
from ._prompts import Prompts

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Rate:
    """How the best-matching step of B grows with the step of A."""

    settled: str | None
    """``"linear"`` or ``"exponential"`` where one is better beyond doubt, else nothing."""
    preferred: str
    """The better of the two."""
    linear: Estimate
    """Steps of B per step of A, by a line."""
    exponential: Estimate
    """Doublings of B's steps per step of A, by an exponential."""
    evidence_linear: Estimate
    """Difference of BIC by which a line beats the exponential."""
    evidence_exponential: Estimate
    """Difference of BIC by which an exponential beats line, power law and parabola."""
    points: list[tuple[float, float]]
    """What was fitted: step of A, best step of B."""
    words: str

    def __str__(self) -> str:
        return self.words


class Comparison(Shown):
    """How alike two learners are at every pair of their steps, the best matches, and their rate."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(found["findings"])
        self._found = found

    @property
    def a(self) -> str:
        """Learner A."""
        return str(self._found["a"])

    @property
    def b(self) -> str:
        """Learner B, which was searched for the best match."""
        return str(self._found["b"])

    @property
    def measure(self) -> str:
        """What similarity is: SimE, SimW, …"""
        return str(self._found["measure"])

    @property
    def prompts(self) -> int:
        """Prompts it was measured on."""
        return int(self._found["prompts"])

    @property
    def steps_a(self) -> Integers:
        """Steps of A."""
        return self._integers("steps_a")

    @property
    def steps_b(self) -> Integers:
        """Steps of B."""
        return self._integers("steps_b")

    @property
    def similarity(self) -> Floats:
        """Mean over prompts [steps of A, steps of B]."""
        return self._floats("similarity")

    @property
    def per_prompt(self) -> Floats:
        """The same for each prompt [steps of A, steps of B, prompts]."""
        return self._floats("per_prompt")

    @property
    def best(self) -> Floats:
        """The step of B that is most like each step of A; not a number where there is none."""
        return self._floats("best")

    @property
    def best_similarity(self) -> Floats:
        """How alike they are there."""
        return self._floats("best_similarity")

    @property
    def intervals(self) -> Floats:
        """95 % interval of ``best`` over resampled prompts [steps of A, 2]."""
        return self._floats("intervals")

    @property
    def interpolated(self) -> Floats:
        """The best step between those that were searched, with its interval [steps of A, 3]: value, low, high."""
        return self._floats("interpolated")

    @property
    def floor(self) -> float:
        """Similarity of both at their last steps: what having converged is worth by itself."""
        return float(self._found["floor"])

    @property
    def fit(self) -> Rate | None:
        """The rate of the best matches; nothing where they do not tell, and :attr:`why_no_fit` says why."""
        fit = self._found["fit"]
        if fit is None:
            return None
        names = ["linear", "exponential", "evidence_linear", "evidence_exponential"]
        estimates = {name: Estimate(*fit[name]) for name in names}
        return Rate(fit["settled"], fit["preferred"], points=fit["points"], words=fit["words"], **estimates)

    @property
    def why_no_fit(self) -> str | None:
        """Why there is no rate, a sentence."""
        why = self._found["no_fit"]
        return None if why is None else str(why)

    def _floats(self, name: str) -> Floats:
        return cast(Floats, self._found[name])

    def _integers(self, name: str) -> Integers:
        return cast(Integers, self._found[name])

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each step of A: the best step of B, its interval, and the similarity."""
        import pandas

        columns = {
            "best": self.best,
            "low": self.intervals[:, 0],
            "high": self.intervals[:, 1],
            "interpolated": self.interpolated[:, 0],
            "similarity": self.best_similarity,
        }
        return pandas.DataFrame(columns, index=pandas.Index(self.steps_a, name=self._found["unit_a"]))

    def __repr__(self) -> str:
        return f"{self.title}\n{self.answer}\n{self._found['text']}".rstrip()


def _side(given: object, name: str, steps: Steps | None) -> tuple[Any, Steps | None]:
    """A learner or predictions as the private module takes them, and its steps."""
    if isinstance(given, str):
        return given, steps
    if isinstance(given, PathLike):
        return f"run:{os.fspath(given)}", steps
    if isinstance(given, Learner):
        return given._learner, steps
    if isinstance(given, Trajectory):
        return (given.values, given.steps.tolist(), given.learner), steps
    if given is None or isinstance(given, (bytes, dict, set)):
        accepted = "a name, a learner, or an array [steps, prompts, points]"
        raise ArgumentError(f"{name} is of type {type(given).__name__}; accepted: {accepted}")
    ndim = getattr(given, "ndim", None)
    if ndim == 2:  # one step
        values = floats(given, name, "[prompts, points]")[np.newaxis]
    else:
        values = floats(given, name, "[steps, prompts, points]")
    taken = list(range(1, values.shape[0] + 1))
    if steps is not None:
        text = step_text(steps, f"steps_{name}")
        taken = _listed(text or "", name)
        if len(taken) != values.shape[0]:
            raise ArgumentError(f"steps_{name} has {len(taken)} steps, and {name} has {values.shape[0]}; accepted: as many")
    return (values, taken, "mine" if name == "a" else "other"), None


def _listed(text: str, name: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"steps_{name} is {text!r}; accepted for an array: a list of whole numbers") from None


def compare(
    a: object,
    b: object,
    prompts: Prompts | int = 1280,
    *,
    measure: str = "sime",
    steps_a: Steps | None = None,
    steps_b: Steps | None = None,
    over: tuple[int, int] | None = None,
    from_pairs: int = 1,
    queries: int | None = None,
    seed: int = 0,
) -> Comparison:
    """Compares two learners at all pairs of their steps.

    Each is a name (``"newton"``, ``"gd:eta=0.01"``, ``"run:r1"``), a learner, a model's directory as a path, or an array of
    predictions [steps, prompts, points] for ``prompts``. Of two names ``prompts`` may be a number: so many are sampled from
    the task that the learners know. ``measure``: ``"sime"`` (cosine of errors), ``"simw"`` (of induced weights), ``"l2e"``,
    ``"l2w"`` (distances). ``over``: first and last step of A that the rate is fitted to. ``from_pairs``: fewest pairs read at
    a position that counts, 1 as in the paper.
    """
    side_a, steps_a = _side(a, "a", steps_a)
    side_b, steps_b = _side(b, "b", steps_b)
    given = prompts if isinstance(prompts, Prompts) else None
    count = 0 if given is not None else whole(prompts, "prompts", 1, 10_000_000)
    how = {
        "measure": measure,
        "from_pairs": whole(from_pairs, "from_pairs", 0),
        "queries": None if queries is None else whole(queries, "queries", 1),
        "seed": whole(seed, "seed", 0, 2**64 - 1),
        "steps_a": step_text(steps_a, "steps_a"),
        "steps_b": step_text(steps_b, "steps_b"),
        "over": None if over is None else (whole(over[0], "over", 0), whole(over[1], "over", 0)),
    }
    return Comparison(_iclab.compare(side_a, side_b, None if given is None else given._prompts, count, how))
