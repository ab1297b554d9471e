"""Prompts: pairs of inputs and labels that a learner reads."""

from __future__ import annotations

from os import PathLike, fspath

from . import _iclab
from ._arrays import Floats, floats, whole


class Prompts:
    """Prompts with inputs ``xs`` [prompts, points, dimensions] and labels ``ys`` [prompts, points].

    ``Prompts(xs, ys)`` takes arrays of your own; :func:`sample` makes some of a known distribution, and
    :meth:`read` takes the file that ``iclab sample`` wrote.
    """

    _prompts: _iclab.Prompts

    def __init__(self, xs: object, ys: object) -> None:
        self._prompts = _iclab.Prompts.of(
            floats(xs, "xs", "[prompts, points, dimensions]"), floats(ys, "ys", "[prompts, points]")
        )

    @classmethod
    def _of(cls, prompts: _iclab.Prompts) -> Prompts:
        made = cls.__new__(cls)
        made._prompts = prompts
        return made

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Prompts:
        """Prompts of an .npz file with ``xs`` and ``ys``."""
        return cls._of(_iclab.Prompts.read(fspath(path)))

    def write(self, path: str | PathLike[str]) -> None:
        """Writes an .npz file that ``iclab compare --prompts`` reads."""
        self._prompts.write(fspath(path))

    @property
    def xs(self) -> Floats:
        """Inputs [prompts, points, dimensions]; a view that cannot be written to."""
        return self._prompts.xs

    @property
    def ys(self) -> Floats:
        """Labels [prompts, points]; a view that cannot be written to."""
        return self._prompts.ys

    @property
    def points(self) -> int:
        """Points per prompt; the last is predicted from all others."""
        return self._prompts.shape[1]

    @property
    def dim(self) -> int:
        """Dimension of an input."""
        return self._prompts.shape[2]

    @property
    def function(self) -> str | None:
        """Class of functions they were sampled from, if they were."""
        return self._prompts.task[0] if self._prompts.task else None

    @property
    def inputs(self) -> str | None:
        """Distribution of the inputs they were sampled from, if they were."""
        return self._prompts.task[1] if self._prompts.task else None

    def head(self, count: int) -> Prompts:
        """The first ``count`` of them."""
        return Prompts._of(self._prompts.part(0, whole(count, "count", 1)))

    def __len__(self) -> int:
        return self._prompts.shape[0]

    def __repr__(self) -> str:
        count, points, dim = self._prompts.shape
        kind = f"{self.function} on {self.inputs} inputs" if self.function else "given"
        return f"<Prompts {kind}: {count} of {points} points in {dim} dimensions>"


def sample(
    function: str = "linear",
    *,
    inputs: str = "gaussian",
    dim: int = 20,
    points: int = 41,
    prompts: int = 320,
    seed: int = 0,
    first: int = 0,
) -> Prompts:
    """Samples prompts: the same bits as ``iclab sample`` with the same arguments.

    ``function`` and ``inputs`` may have settings, as in ``inputs="skewed:kappa=100"``.
    """
    return Prompts._of(
        _iclab.Prompts.sample(
            function,
            inputs,
            whole(dim, "dim", 1, 1024),
            whole(points, "points", 1, 100_000),
            whole(prompts, "prompts", 1, 10_000_000),
            whole(seed, "seed", 0, 2**64 - 1),
            whole(first, "first", 0),
        )
    )
