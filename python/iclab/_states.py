"""State probes: what a network holds at its tokens, layer by layer, of what an algorithm would hold there."""

from __future__ import annotations

import json
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from . import _iclab
from ._arrays import whole
from ._figures import Shown

if TYPE_CHECKING:
    import pandas


class States(Shown):
    """How well quantities of an algorithm can be read from the residual stream, by layer, tokens and iteration."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(found["findings"])
        self._found: dict[str, Any] = json.loads(found["json"])

    @property
    def decoded(self) -> list[dict[str, Any]]:
        """One for each layer, kind of tokens, quantity and iteration, with gain and controls."""
        return list(self._found["decoded"])

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each layer, kind of tokens, quantity and iteration."""
        import pandas

        rows = []
        for d in self.decoded:
            row = {name: d[name] for name in ("layer", "tokens", "quantity", "step")}
            for name in ("gain", "control", "other_pairs", "other_inputs"):
                row[name] = None if d[name] is None else d[name]["value"]
            row["low"], row["high"] = d["gain"]["low"], d["gain"]["high"]
            rows.append(row)
        return pandas.DataFrame(rows)

    def __repr__(self) -> str:
        return f"{self.title}\n{self.answer}"


def states(
    network: str | PathLike[str],
    *,
    algorithm: str | None = None,
    steps: str | None = None,
    read_out: str = "affine",
    prompts: int = 1024,
    other_inputs: str | None = None,
    seed: int = 0,
) -> States:
    """Reads from every layer what an algorithm would hold at its tokens, as ``iclab probe --state`` does.

    ``network``: a run, a shipped network or ``construct:FILE``; ``algorithm``: whose quantities are looked for, Newton from ηI (or
    a construction's own) when left out, after ``steps`` such as ``"0..=12"``; ``read_out``: ``"affine"`` or ``"mlp"``.
    """
    asked = {
        "network": fspath(network),
        "algorithm": algorithm,
        "steps": steps,
        "read_out": read_out,
        "prompts": whole(prompts, "prompts", 64, 10_000_000),
        "other_inputs": other_inputs,
        "seed": whole(seed, "seed", 0, 2**64 - 1),
    }
    return States(_iclab.states(asked))
