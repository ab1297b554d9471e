"""Transformers whose weights are an algorithm."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from . import _iclab
from ._arrays import whole
from ._errors import ArgumentError
from ._figures import Shown
from ._learners import Learner


class Construction(Shown):
    """Weights that are an algorithm, and how far they are from it."""

    def __init__(self, learner: Learner, found: dict[str, Any]) -> None:
        super().__init__(found["findings"])
        self._found = found
        self.learner = learner

    @property
    def algorithm(self) -> str:
        """The algorithm, as the registry names it: what :func:`compare` should be given."""
        return str(self._found["algorithm"])

    @property
    def deviation(self) -> float:
        """Largest deviation from the algorithm over 1,000 prompts, relative to the size of predictions."""
        return float(self._found["deviation"])

    @property
    def layers(self) -> int:
        """Layers of the Transformer."""
        return int(self._found["layers"])

    @property
    def width(self) -> int:
        """Width of its residual stream."""
        return int(self._found["width"])

    @property
    def readme(self) -> str:
        """Slots, layers and tensors, explained."""
        return str(self._found["readme"])

    def __repr__(self) -> str:
        return f"{self.title}\n{self.summary}".rstrip()


def construct(
    algorithm: str = "newton",
    *,
    iterations: int = 12,
    dim: int = 20,
    points: int = 40,
    start: str = "gram",
    variant: str = "compact",
    step: float | None = None,
    inputs: str = "gaussian",
    seed: int = 0,
    out: str | PathLike[str] | None = None,
) -> Construction:
    """Builds a Transformer whose weights are Newton's iteration or a descent, as ``iclab construct`` does.

    ``algorithm``: ``"newton"``, ``"gd"`` or ``"gd++"``; ``start``: ``"gram"`` (αS) or ``"identity"`` (ηI); ``variant``:
    ``"compact"``, ``"residual"`` (from ηI, labels read at every layer), ``"paper"``, ``"printed"`` or ``"causal"``;
    ``step``: α or η, half of the largest that converges when left out; ``out``: a .safetensors file to write.
    """
    variants = ["compact", "residual", "paper", "printed", "causal"]
    if algorithm not in {"newton", "gd", "gd++"}:
        raise ArgumentError(f"algorithm is {algorithm!r}; accepted: 'newton', 'gd' or 'gd++'")
    if start not in {"gram", "identity"}:
        raise ArgumentError(f"start is {start!r}; accepted: 'gram' or 'identity'")
    if variant not in variants:
        raise ArgumentError(f"variant is {variant!r}; accepted: {', '.join(map(repr, variants))}")
    if start == "identity" and (variant not in {"compact", "residual"} or algorithm != "newton"):
        raise ArgumentError(
            "start 'identity' is of two constructions of Newton; accepted: variant='compact' or variant='residual'"
        )
    compact = "compact-identity" if start == "identity" else "compact"
    name = algorithm if algorithm != "newton" else compact if variant == "compact" else variant
    wish = {
        "variant": name,
        "iterations": whole(iterations, "iterations", 0),
        "dim": whole(dim, "dim", 1),
        "points": whole(points, "points", 1),
        "step": step,
        "inputs": inputs,
        "seed": whole(seed, "seed", 0, 2**64 - 1),
        "out": None if out is None else fspath(out),
    }
    learner, found = _iclab.construct(wish)
    return Construction(Learner(learner), found)
