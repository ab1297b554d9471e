"""Arrays as users have them: NumPy, PyTorch on the CPU, lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ._errors import ArgumentError

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Steps: TypeAlias = "str | int | Sequence[int] | range | npt.NDArray[np.integer[Any]]"


class Estimate(NamedTuple):
    """A value with its 95 % interval; not numbers where nothing could be measured."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def floats(given: object, name: str, shape: str) -> Floats:
    """``given`` as float64, contiguous: itself where it is that already, else converted once.

    ``shape`` names the axes, as in ``[prompts, points]``; its commas say how many there must be.
    """
    detach = getattr(given, "detach", None)
    if callable(detach):  # a tensor of PyTorch
        tensor = cast(Any, given)
        if tensor.device.type != "cpu":
            raise ArgumentError(f"{name} lies on {tensor.device}; accepted: a tensor on the CPU, as {name}.cpu()")
        # NumPy has no bfloat16
        given = tensor.detach().double().numpy() if tensor.is_floating_point() else tensor.detach().numpy()
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{name} is no array ({error}); accepted: an array of shape {shape}") from None
    if array.dtype.kind not in "fiu":
        raise ArgumentError(f"{name} has dtype {array.dtype}; accepted: float64, float32 or whole numbers")
    axes = shape.count(",") + 1
    if array.ndim != axes:
        raise ArgumentError(f"{name} has shape {list(array.shape)}; accepted: {shape}")
    return np.ascontiguousarray(array, dtype=np.float64)


def step_text(given: Steps | None, name: str = "steps") -> str | None:
    """Steps as the laboratory reads them: ``0..=24``, ``1,50,100``, ``pow2:0..=12``."""
    if given is None or isinstance(given, str):
        return given
    numbers: Iterable[Any] = [given] if isinstance(given, (int, np.integer)) else given
    found: list[int] = []
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 0:
            raise ArgumentError(f"{name} has {number!r}; accepted: whole numbers from 0, or a text such as '0..=24'")
        found.append(int(number))
    if not found:
        raise ArgumentError(f"{name} is empty; accepted: at least one step")
    return ",".join(str(number) for number in found)


def whole(given: object, name: str, least: int, most: int | None = None) -> int:
    """A whole number within bounds."""
    ok = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    if not ok or int(cast(int, given)) < least or (most is not None and int(cast(int, given)) > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise ArgumentError(f"{name} is {given!r}; accepted: a whole number, {bounds}")
    return int(cast(int, given))
