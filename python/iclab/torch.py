"""Networks of PyTorch: read-outs for the layers of a module, and weights from a state dict.

>>> layers = iclab.torch.readouts(model, "transformer.h.*", prompts)    # hooks on your own module
>>> iclab.compare(layers, "newton", prompts)

PyTorch is imported here and nowhere else.
"""

from __future__ import annotations

import fnmatch
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from . import _iclab
from ._arrays import whole
from ._errors import ArgumentError
from ._learners import Learner, _checked
from ._prompts import Prompts

__all__ = ["ReadOuts", "load_state", "readouts"]

Forward = Callable[[Any, Tensor, Tensor], object]
"""Runs a module on inputs [prompts, points, dimensions] and labels [prompts, points]; what it returns is not looked at."""


class ReadOuts(Learner):
    """A module whose layers have read-outs: a learner, whose steps are the layers from 1."""

    def __init__(self, learner: _iclab.Learner, layers: list[str], found: dict[str, Any]) -> None:
        super().__init__(learner)
        self.layers = layers
        """Name of each layer in the module."""
        self.prompts: int = found["prompts"]
        """Prompts that the read-outs were fitted to."""
        self.why: str = found["why"]
        """Why so many."""
        self.held_out: list[tuple[float, float]] = found["held_out"]
        """Mean squared error over all positions, and over d at the last one, of each layer on prompts it was not fitted to."""

    def __repr__(self) -> str:
        return f"<ReadOuts of {self.name}: {len(self.layers)} layers, fitted to {self.prompts} prompts>"


def readouts(
    module: nn.Module,
    layers: str | Sequence[str | nn.Module] | nn.ModuleList | nn.LSTM | None,
    prompts: Prompts,
    *,
    forward: Forward | None = None,
    positions: Callable[[Tensor, int], Tensor] | None = None,
    name: str | None = None,
    fit: int | None = None,
) -> ReadOuts:
    """Gives every layer of a module a read-out of its own, so that layers are steps of a learner.

    The module is frozen; forward hooks take the hidden states, and affine read-outs are fitted by the code of
    ``iclab probe``: to fresh prompts of the task that ``prompts`` were sampled from (as many as help, or ``fit``), or to
    ``prompts`` themselves where that is not known.

    ``layers``: names such as ``"transformer.h.*"`` or ``["h.0", "h.1"]``, modules, or a ``ModuleList``; nothing for the longest
    list of like blocks in the module. A stacked ``nn.LSTM`` counts as its layers. ``forward``: runs the module on inputs and
    labels; ``module(xs, ys)`` when left out. ``positions``: picks the states where labels are predicted, given states
    [prompts, tokens, width] and the number of points; when left out, every second token from the first where there are two
    tokens per point (x₁, y₁, x₂, …), else all of them.
    """
    asked = _checked(prompts)
    body = _Body(module, _found(module, layers), forward, positions)
    few = asked.head(2)
    states = body(np.asarray(few.xs, dtype=np.float32), np.asarray(few.ys, dtype=np.float32))
    count = None if fit is None else whole(fit, "fit", 16, 10_000_000)
    label = name or type(module).__name__
    widths = [state.shape[2] for state in states]
    learner, found = _iclab.fit_body(label, widths, body, asked._prompts, count)
    return ReadOuts(learner, body.names, found)


def load_state(
    model: nn.Module | Mapping[str, Tensor],
    *,
    heads: int | None = None,
    readout: str = "fitted",
    prompts: Prompts | None = None,
    seed: int = 0,
) -> Learner:
    """The network of a model or state dict, run by iclab itself; no file is written.

    GPT-2 or an LSTM between a linear read-in and read-out, by the names of Garg et al. or Hugging Face. ``heads``: of a GPT-2;
    what the model's config says, else 8. ``readout="fitted"`` fits a read-out per layer to the task of ``prompts`` (the
    paper's when left out); ``"own"`` is its own output.
    """
    if readout not in {"fitted", "own"}:
        raise ArgumentError(f"readout is {readout!r}; accepted: 'fitted' or 'own'")
    if isinstance(model, nn.Module):
        state: Mapping[str, Tensor] = model.state_dict()
        heads = heads or _heads(model)
    elif isinstance(model, Mapping):
        state = model
    else:
        raise ArgumentError(f"model is of type {type(model).__name__}; accepted: a module or its state dict")
    tensors = {key: value.detach().cpu() for key, value in state.items() if isinstance(value, Tensor)}
    file = io.BytesIO()
    torch.save(tensors, file)
    task = None
    if prompts is not None:
        asked = _checked(prompts)
        if asked.function is None or asked.inputs is None:
            raise ArgumentError("prompts do not tell their task; accepted: prompts of iclab.sample")
        task = (asked.function, asked.inputs, asked.dim, asked.points)
    count = None if heads is None else whole(heads, "heads", 1, 65_536)
    learner = _iclab.load_state(file.getvalue(), count, readout == "own", task, whole(seed, "seed", 0, 2**64 - 1))
    return Learner(learner)


def _heads(model: nn.Module) -> int | None:
    """What the config of the model, or of a part of it, says."""
    for part in model.modules():
        config = getattr(part, "config", None)
        heads = getattr(config, "n_head", None)
        if isinstance(heads, int):
            return heads
    return None


def _found(
    module: nn.Module, layers: str | Sequence[str | nn.Module] | nn.ModuleList | nn.LSTM | None
) -> list[tuple[str, nn.Module]]:
    """The layers by name."""
    named = dict(module.named_modules())
    names = {id(part): name for name, part in named.items()}
    if layers is None:
        return _blocks(named)
    if isinstance(layers, str):
        found = [(name, part) for name, part in named.items() if fnmatch.fnmatchcase(name, layers)]
        depth = min((name.count(".") for name, _ in found), default=0)
        found = [(name, part) for name, part in found if name.count(".") == depth]
        if not found:
            raise ArgumentError(f"layers is {layers!r}, and the module has no such part; accepted: {_some(named)}")
        return found
    if isinstance(layers, nn.LSTM):
        layers = [layers]
    found = []
    wanted: Iterable[object] = layers
    for layer in wanted:
        if isinstance(layer, str) and layer in named:
            found.append((layer, named[layer]))
        elif isinstance(layer, nn.Module) and id(layer) in names:
            found.append((names[id(layer)], layer))
        else:
            what = repr(layer) if isinstance(layer, str) else type(layer).__name__
            raise ArgumentError(f"layers has {what}, which is no part of the module; accepted: {_some(named)}")
    if not found:
        raise ArgumentError(f"layers is empty; accepted: {_some(named)}")
    return found


def _blocks(named: dict[str, nn.Module]) -> list[tuple[str, nn.Module]]:
    """The longest list of like blocks, or else an LSTM."""
    longest: list[tuple[str, nn.Module]] = []
    for name, part in named.items():
        if isinstance(part, (nn.ModuleList, nn.Sequential)):
            blocks = [(f"{name}.{key}" if name else key, block) for key, block in part.named_children()]
            alike = len({type(block) for _, block in blocks}) == 1
            if alike and len(blocks) > max(1, len(longest)):
                longest = blocks
    if longest:
        return longest
    recurrent: list[tuple[str, nn.Module]] = [(name, part) for name, part in named.items() if isinstance(part, nn.LSTM)]
    if not recurrent:
        raise ArgumentError(f"the module has no list of like blocks and no LSTM; accepted as layers: {_some(named)}")
    return recurrent


def _some(named: dict[str, nn.Module]) -> str:
    """The first names of the parts."""
    names = [name for name in named if name]
    if not names:
        return "a module with parts"
    shown = ", ".join(names[:8])
    return f"{shown}, … ({len(names)} parts)" if len(names) > 8 else shown


class _Body:
    """A module that gives its hidden states; called by the laboratory with inputs and labels."""

    def __init__(
        self,
        module: nn.Module,
        layers: list[tuple[str, nn.Module]],
        forward: Forward | None,
        positions: Callable[[Tensor, int], Tensor] | None,
    ) -> None:
        self.module = module
        self.layers = layers
        self.forward = forward
        self.positions = positions
        self.names: list[str] = []
        for name, part in layers:
            if isinstance(part, nn.LSTM) and part.num_layers > 1:
                self.names += [f"{name}.{layer}" for layer in range(part.num_layers)]
            else:
                self.names.append(name)

    def __call__(self, xs: npt.NDArray[np.float32], ys: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
        inputs, labels = torch.from_numpy(xs), torch.from_numpy(ys)
        parameter = next(self.module.parameters(), None)
        if parameter is not None:
            inputs, labels = inputs.to(parameter), labels.to(parameter)
        seen: list[list[Tensor]] = [[] for _ in self.layers]
        hooks = [part.register_forward_hook(self._keeper(seen, i)) for i, (_, part) in enumerate(self.layers)]
        training = self.module.training
        self.module.eval()
        try:
            with torch.no_grad():
                self._run(inputs, labels)
        finally:
            self.module.train(training)
            for hook in hooks:
                hook.remove()
        states: list[npt.NDArray[np.float32]] = []
        for (name, _), found in zip(self.layers, seen, strict=True):
            if not found:
                raise ArgumentError(f"layer {name!r} was not run by the module; accepted: layers that its forward calls")
            states += [self._at_x(state, name, xs.shape[0], xs.shape[1]) for state in found]
        return states

    def _run(self, xs: Tensor, ys: Tensor) -> None:
        if self.forward is not None:
            self.forward(self.module, xs, ys)
            return
        try:
            self.module(xs, ys)
        except TypeError as error:
            raise ArgumentError(
                f"module(xs, ys) is refused ({error}); accepted: forward=lambda module, xs, ys: …, which runs the module on inputs "
                "[prompts, points, dimensions] and labels [prompts, points]"
            ) from error

    def _keeper(self, seen: list[list[Tensor]], i: int) -> Callable[[nn.Module, Any, Any], None]:
        def keep(part: nn.Module, inputs: Any, output: Any) -> None:
            seen[i].clear()  # a part that runs twice counts as it was last
            if isinstance(part, nn.LSTM):
                seen[i] += _lstm_layers(part, inputs[0], output[0])
            else:
                state = output[0] if isinstance(output, (tuple, list)) else output
                state = getattr(state, "last_hidden_state", state)
                if not isinstance(state, Tensor):
                    kind, name = type(state).__name__, self.layers[i][0]
                    raise ArgumentError(f"layer {name!r} returns {kind}; accepted: a tensor [prompts, tokens, width], or a tuple that begins with one")
                seen[i].append(state)

        return keep

    def _at_x(self, state: Tensor, name: str, prompts: int, points: int) -> npt.NDArray[np.float32]:
        """The states where labels are predicted [prompts, points, width]."""
        if state.ndim == 3 and self.positions is not None:
            state = self.positions(state, points)
        elif state.ndim == 3 and state.shape[0] == prompts and state.shape[1] in (2 * points, 2 * points - 1):
            state = state[:, ::2]
        if state.ndim != 3 or state.shape[:2] != (prompts, points):
            raise ArgumentError(
                f"layer {name!r} has states of shape {list(state.shape)} for {prompts} prompts of {points} points; accepted: [prompts, "
                "tokens, width] with one or two tokens per point, or positions=lambda states, points: …, which picks them"
            )
        return state.detach().float().cpu().contiguous().numpy()


def _lstm_layers(part: nn.LSTM, inputs: Tensor, last: Tensor) -> list[Tensor]:
    """The states [prompts, tokens, width] of every layer of a stacked LSTM, of which a hook sees the last."""
    if part.bidirectional or part.proj_size:
        raise ArgumentError("the LSTM is bidirectional or has projections; accepted: a plain one, which reads from left to right")
    states: list[Tensor] = []
    state = inputs
    for layer in range(part.num_layers):
        if layer == part.num_layers - 1:
            state = last
        else:
            alone = nn.LSTM(state.shape[-1], part.hidden_size, 1, bias=part.bias, batch_first=part.batch_first)
            weights = {key.replace(f"_l{layer}", "_l0"): value for key, value in part.state_dict().items() if key.endswith(f"_l{layer}")}
            alone.load_state_dict(weights)
            state = alone.to(state)(state)[0]
        states.append(state if part.batch_first else state.transpose(0, 1))
    return states
