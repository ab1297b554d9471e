"""Activation patching: where in a network what it has read lives."""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, cast

from . import _iclab
from ._arrays import Floats, whole
from ._figures import Shown

if TYPE_CHECKING:
    import pandas


class Patching(Shown):
    """How far a network's answers follow a donor prompt, by the layer and the tokens that are taken from it."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(found["findings"])
        self._found = found

    @property
    def places(self) -> list[str]:
        """The roles, or the tokens, that were patched."""
        return list(self._found["places"])

    @property
    def follows(self) -> Floats:
        """Share of the way to the donor's answer [layers, places, 3]: value, low, high. 1: it becomes the donor's."""
        return cast(Floats, self._found["follows"])

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each layer, a column for each place."""
        import pandas

        layers = pandas.Index(range(1, len(self.follows) + 1), name="layer")
        return pandas.DataFrame(self.follows[:, :, 0], columns=self.places, index=layers)

    def __repr__(self) -> str:
        return f"{self.title}\n{self.answer}"


def patch(
    network: str | PathLike[str],
    *,
    donor: str = "labels",
    part: str = "stream",
    by_token: bool = False,
    pairs: int | None = None,
    prompts: int = 64,
    seed: int = 0,
    device: str = "auto",
    precision: str | None = None,
) -> Patching:
    """Replaces activations of a network by those of another prompt, layer by layer, as ``iclab patch`` does.

    ``donor``: ``"labels"`` (the same inputs under another function), ``"inputs"`` or ``"both"``; ``part``: ``"stream"`` (the residual
    stream before a layer), ``"attention"`` or ``"mlp"``; ``by_token``: every token by itself, not all of a role together. ``device``:
    ``"auto"``, ``"cpu"`` or ``"cuda"``; ``precision`` of a CUDA device: ``"float32"`` unless given, ``"tf32"`` or ``"bf16"``.
    """
    asked = {
        "network": fspath(network),
        "donor": donor,
        "part": part,
        "by_token": by_token,
        "pairs": None if pairs is None else whole(pairs, "pairs", 1),
        "prompts": whole(prompts, "prompts", 8, 1_000_000),
        "seed": whole(seed, "seed", 0, 2**64 - 1),
        "device": device,
        "precision": precision,
    }
    return Patching(_iclab.patch(asked))
