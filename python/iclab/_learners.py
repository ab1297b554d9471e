"""Learners: anything that reads prompts and predicts, step by step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _iclab
from ._arrays import Floats, Integers, Steps, floats, step_text, whole
from ._errors import ArgumentError
from ._prompts import Prompts

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas


@dataclass(frozen=True)
class Trajectory:
    """Predictions of a learner along its steps."""

    learner: str
    steps: Integers
    values: Floats
    """[steps, prompts, points]: ``values[s, b, t]`` predicts ``ys[b, t]`` from the t pairs before it."""
    diverged: list[int]
    """Prompts that it has left for good at each step."""

    def errors(self, prompts: Prompts) -> Floats:
        """Predictions less labels [steps, prompts, points]."""
        if self.values.shape[1:] != prompts.ys.shape:
            found, accepted = list(self.values.shape[1:]), list(prompts.ys.shape)
            raise ArgumentError(f"prompts have shape {accepted}, and predictions are for {found}; accepted: the same")
        difference: Floats = self.values - prompts.ys
        return difference

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype=dtype)

    def __repr__(self) -> str:
        return f"<Trajectory of {self.learner}: {list(self.values.shape)} [steps, prompts, points]>"


class Learner:
    """A learner: an algorithm, a network with a read-out per layer, constructed weights, a module of PyTorch."""

    _learner: _iclab.Learner
    _name: str | None

    def __init__(self, learner: _iclab.Learner, name: str | None = None) -> None:
        self._learner = learner
        self._name = name

    @property
    def name(self) -> str:
        """Name and settings."""
        return self._learner.name

    @property
    def label(self) -> str:
        """What figures call it."""
        return self._learner.label

    @property
    def unit(self) -> str:
        """What a step is: an iteration, a pass, a layer."""
        return self._learner.unit

    @property
    def steps(self) -> Integers:
        """The steps to look at when nobody says which."""
        return self._learner.default_steps

    @property
    def notes(self) -> list[str]:
        """What one should know of it, in full sentences."""
        return self._learner.notes

    def predict(self, prompts: Prompts, steps: Steps | None = None) -> Trajectory:
        """Predictions at every position of every prompt, after each of ``steps``; its own when left out.

        Steps are numbers, or a text such as ``"0..=24"``, ``"1,50,100"``, ``"pow2:0..=12"``.
        """
        taken, values, diverged = self._learner.predict(_checked(prompts)._prompts, step_text(steps))
        return Trajectory(self.label, taken, values, diverged)

    def answers(
        self, prompts: Prompts, queries: object, lengths: Sequence[int], steps: Steps | None = None
    ) -> Floats:
        """Answers [steps, prompts, lengths, queries] to ``queries`` [prompts, queries, dimensions] after ``lengths`` pairs."""
        asked = floats(queries, "queries", "[prompts, queries, dimensions]")
        pairs = [whole(length, "lengths", 0) for length in lengths]
        return self._learner.answers(_checked(prompts)._prompts, asked, pairs, step_text(steps))

    def __repr__(self) -> str:
        return f"<Learner {self.name}>"


def _checked(prompts: object) -> Prompts:
    if not isinstance(prompts, Prompts):
        kind = type(prompts).__name__
        raise ArgumentError(f"prompts is of type {kind}; accepted: iclab.Prompts, as of iclab.sample(…) or iclab.Prompts(xs, ys)")
    return prompts


def solver(name: str, **settings: object) -> Learner:
    """An algorithm of the registry, with its settings: ``solver("newton", start="identity")``.

    ``iclab list solvers`` shows them all.
    """
    if settings:
        given = ",".join(f"{key}={_setting(value)}" for key, value in settings.items())
        name = f"{name}{',' if ':' in name else ':'}{given}"
    if name.split(":")[0] in {"run", "file", "construct"}:
        raise ArgumentError(f"name is {name!r}; accepted: an algorithm, or iclab.load for networks and files")
    return Learner(_iclab.Learner.build(name, None), name)


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def load(name: str | PathLike[str], *, readout: str = "fitted") -> Learner:
    """A trained network: ``"r1"`` of the shipped ones, a run's directory or name, a checkpoint.

    ``readout="fitted"`` gives every layer a read-out of its own, so that layers are steps; ``"own"`` is the network's
    own output. Also what follows ``run:``, ``file:`` or ``construct:`` on the command line.
    """
    text = fspath(name)
    if readout not in {"fitted", "own"}:
        raise ArgumentError(f"readout is {readout!r}; accepted: 'fitted' or 'own'")
    if text.split(":")[0] not in {"run", "file", "construct"}:
        text = f"run:{text}"
    if readout == "own" and "@own" not in text:
        text = text.replace(",", "@own,", 1) if "," in text else f"{text}@own"
    return Learner(_iclab.Learner.build(text, None), text)


@dataclass(frozen=True, repr=False)
class Probe:
    """A network whose layers have been given read-outs, and what they are like."""

    learner: Learner
    text: str
    numbers: dict[str, Any]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each layer."""
        import pandas

        return pandas.DataFrame(self.numbers["layers"])

    def __repr__(self) -> str:
        return self.text


def probe(
    run: str | PathLike[str], *, prompts: int | None = None, raw: bool = False, look: int = 320
) -> Probe:
    """Gives every layer of a network a read-out and compares the layers with Newton's steps, as ``iclab probe`` does.

    Read-outs of a run are saved beside it. ``prompts``: how many to fit to, chosen by held-out error when left out;
    ``look``: how many to compare on.
    """
    fitted = None if prompts is None else whole(prompts, "prompts", 64, 10_000_000)
    learner, found = _iclab.probe(fspath(run), fitted, raw, whole(look, "look", 8, 1_000_000))
    return Probe(Learner(learner), found["text"], json.loads(found["json"]))
