"""Training of networks by experiments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from . import _iclab
from ._arrays import whole
from ._learners import Learner, load

if TYPE_CHECKING:
    import pandas


class Metrics(TypedDict):
    """A row of the metrics: means over the steps since the last row."""

    step: int
    loss: float
    excess: float | None
    norm: float
    rate: float
    dims: int
    points: int
    seconds: float


class Run:
    """A finished run."""

    def __init__(self, directory: Path, result: dict[str, Any]) -> None:
        self.directory = directory
        self.result = result

    @property
    def loss(self) -> float:
        """Mean squared error over all positions, on fresh prompts."""
        return float(self.result["mean_loss"])

    def metrics(self) -> list[Metrics]:
        """The rows of its metrics."""
        text = (self.directory / "metrics.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def to_pandas(self) -> pandas.DataFrame:
        """The metrics as a data frame."""
        import pandas

        return pandas.DataFrame(self.metrics()).set_index("step")

    def learner(self, *, readout: str = "fitted") -> Learner:
        """The network as a learner, whose steps are its layers."""
        return load(self.directory, readout=readout)

    def __repr__(self) -> str:
        return f"<Run {self.directory}: {self.result['steps']} steps, mean loss {self.loss:.4f}>"


def train(
    experiment: str | PathLike[str],
    *,
    callback: Callable[[Metrics], object] | None = None,
    set: Mapping[str, object] | None = None,
    steps: int | None = None,
    seed: int | None = None,
    device: str = "auto",
    precision: str | None = None,
    runs: str | PathLike[str] = "runs",
    checkpoint_every: str | None = None,
) -> Run:
    """Trains the network of an experiment: a .toml file, or the name of one inside iclab, such as ``"miniature"``.

    ``callback`` gets each row of the metrics; what it raises stops the training, which is saved. ``set`` changes fields:
    ``{"training.rate": 3e-4}``. A run that was interrupted goes on when it is called again; a finished one is not repeated.
    """
    changes = [f"{field}={json.dumps(value) if not isinstance(value, str) else value}" for field, value in (set or {}).items()]
    asked = {
        "experiment": fspath(experiment),
        "set": changes,
        "steps": None if steps is None else whole(steps, "steps", 1),
        "seed": None if seed is None else whole(seed, "seed", 0, 2**63 - 1),
        "device": device,
        "precision": precision,
        "runs": fspath(runs),
        "checkpoint_every": checkpoint_every,
    }
    directory, result = _iclab.train(asked, callback)
    return Run(Path(directory), json.loads(result))
