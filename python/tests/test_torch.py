"""Networks of PyTorch: Garg's, Hugging Face's, one like nanoGPT, an LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iclab

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch import nn  # noqa: E402


def interleaved(xs: Any, ys: Any) -> Any:
    """Tokens x₁, y₁, x₂, … [prompts, 2·points, dimensions], as Garg et al. have them."""
    wide = torch.zeros_like(xs)
    wide[:, :, 0] = ys
    return torch.stack([xs, wide], dim=2).reshape(xs.shape[0], 2 * xs.shape[1], xs.shape[2])


class Garg(nn.Module):
    """The model of Garg et al. (2022)."""

    def __init__(self, dim: int, layers: int = 3, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        config = transformers.GPT2Config(
            n_positions=64, n_embd=width, n_layer=layers, n_head=heads,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        )  # fmt: skip
        self._read_in = nn.Linear(dim, width)
        self._backbone = transformers.GPT2Model(config)
        self._read_out = nn.Linear(width, 1)

    def forward(self, xs: Any, ys: Any) -> Any:
        embedded = self._read_in(interleaved(xs, ys))
        return self._read_out(self._backbone(inputs_embeds=embedded).last_hidden_state)[:, ::2, 0]


class Block(nn.Module):
    """A block as nanoGPT has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        h = self.ln_1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Nano(nn.Module):
    """A stack of such blocks over tokens."""

    def __init__(self, dim: int, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.read_in = nn.Linear(dim, width)
        self.transformer = nn.ModuleDict({"h": nn.ModuleList(Block(width) for _ in range(layers))})

    def forward(self, tokens: Any) -> Any:
        x = self.read_in(tokens)
        for block in self.transformer["h"]:  # type: ignore[attr-defined]
            x = block(x)
        return x


class Recurrent(nn.Module):
    """Garg's LSTM."""

    def __init__(self, dim: int, width: int = 24, layers: int = 3, batch_first: bool = True) -> None:
        super().__init__()
        self._read_in = nn.Linear(dim, width)
        self._backbone = nn.LSTM(width, width, layers, batch_first=batch_first)
        self._read_out = nn.Linear(width, 1)
        self.batch_first = batch_first

    def forward(self, xs: Any, ys: Any) -> Any:
        embedded = self._read_in(interleaved(xs, ys))
        if not self.batch_first:
            embedded = embedded.transpose(0, 1)
        states, _ = self._backbone(embedded)
        return self._read_out(states if self.batch_first else states.transpose(0, 1))[:, ::2, 0]


@pytest.fixture(scope="module")
def prompts() -> iclab.Prompts:
    return iclab.sample(dim=4, points=12, prompts=64)


def test_garg_read_by_hooks_and_by_weights_agree(prompts: iclab.Prompts) -> None:
    torch.manual_seed(0)
    model = Garg(4)
    hooked = iclab.torch.readouts(model, "_backbone.h.*", prompts, fit=2048)
    assert hooked.layers == ["_backbone.h.0", "_backbone.h.1", "_backbone.h.2"] and hooked.prompts == 2048
    assert iclab.torch.readouts(model, None, prompts, fit=64).layers == hooked.layers
    with torch.no_grad():
        outputs = model(torch.tensor(prompts.xs).float(), torch.tensor(prompts.ys).float())
    loaded = iclab.torch.load_state(model, readout="own")
    assert loaded.notes == [], "the config says how many heads there are"
    own = loaded.predict(prompts).values[0]
    assert np.abs(own - outputs.numpy()).max() < 1e-5 * np.abs(own).max() + 1e-5
    # the layers before the last are read at the same states by the same code, so they predict the same
    fitted = iclab.torch.load_state(model, prompts=prompts)
    assert fitted.steps.tolist() == [1, 2, 3]
    ours, theirs = hooked.predict(prompts, [1, 2]).values, fitted.predict(prompts, [1, 2]).values
    assert np.abs(ours - theirs).max() < 0.2 * np.abs(theirs).max()
    found = iclab.compare(hooked, "newton", prompts)
    assert found.similarity.shape[0] == 3
    found_print = iclab.fingerprint(hooked, ["newton", "gd"], prompts, queries=8, knots=4)
    assert found_print.steps.tolist() == [1, 2, 3]
    assert model.training, "left as it was"
    assert not model._backbone.h[0]._forward_hooks


def test_hugging_face_and_nanogpt_with_a_forward_of_ones_own(prompts: iclab.Prompts) -> None:
    torch.manual_seed(1)
    nano = Nano(4)
    run = lambda module, xs, ys: module(interleaved(xs, ys))  # noqa: E731
    layers = iclab.torch.readouts(nano, "transformer.h.*", prompts, forward=run, fit=128)
    assert layers.layers == ["transformer.h.0", "transformer.h.1"] and layers.predict(prompts).values.shape == (2, 64, 12)
    blocks = iclab.torch.readouts(nano, nano.transformer["h"], prompts, forward=run, fit=128)  # type: ignore[arg-type]
    assert np.array_equal(blocks.predict(prompts).values, layers.predict(prompts).values)
    gpt2 = transformers.GPT2Model(transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=32))
    read_in = nn.Linear(4, 16)
    embedded = lambda module, xs, ys: module(inputs_embeds=read_in(interleaved(xs, ys)))  # noqa: E731
    assert len(iclab.torch.readouts(gpt2, "h.*", prompts, forward=embedded, fit=64).layers) == 2
    last = iclab.torch.readouts(nano, ["transformer.h.1"], prompts, forward=run, positions=lambda s, n: s[:, 0 : 2 * n : 2], fit=128)
    assert np.allclose(last.predict(prompts).values[0], layers.predict(prompts).values[1])


@pytest.mark.parametrize("batch_first", [True, False])
def test_every_layer_of_a_stacked_lstm(prompts: iclab.Prompts, batch_first: bool) -> None:
    torch.manual_seed(2)
    model = Recurrent(4, batch_first=batch_first)
    hooked = iclab.torch.readouts(model, None, prompts, fit=256)
    assert hooked.layers == ["_backbone.0", "_backbone.1", "_backbone.2"]
    loaded = iclab.torch.load_state(model, prompts=prompts)
    assert np.isfinite(hooked.predict(prompts).values).all() and loaded.steps.tolist() == [1, 2, 3]
    own = iclab.torch.load_state(model.state_dict(), readout="own").predict(prompts).values[0]
    with torch.no_grad():
        outputs = model(torch.tensor(prompts.xs).float(), torch.tensor(prompts.ys).float()).numpy()
    assert np.abs(own - outputs).max() < 1e-5


def test_a_module_that_holds_newton_is_read_as_newton(prompts: iclab.Prompts) -> None:
    """From states that are Newton's predictions, read-outs can only read these, scaled and shifted."""
    newton, steps = iclab.solver("newton"), [2, 4, 6]

    class Layer(nn.Module):
        def forward(self, states: Any) -> Any:
            return states

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in steps)

        def forward(self, xs: Any, ys: Any) -> None:
            values = newton.predict(iclab.Prompts(xs.numpy(), ys.numpy()), steps).values
            for layer, value in zip(self.layers, values, strict=True):
                layer(torch.tensor(value)[:, :, None])

    held = iclab.torch.readouts(Holder(), None, prompts, fit=2048).predict(prompts).values
    right = newton.predict(prompts, steps).values
    for read, value in zip(held, right, strict=True):
        slope, _ = np.polyfit(value.ravel(), read.ravel(), 1)
        assert np.corrcoef(value.ravel(), read.ravel())[0, 1] > 1 - 1e-9 and 0.5 < slope < 3.0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, p: iclab.torch.readouts(m, "h.*", p), "layers is 'h.*', and the module has no such part; accepted: _read_in"),
        (lambda m, p: iclab.torch.readouts(m, ["_read_out", "nothing"], p), "layers has 'nothing', which is no part"),
        (lambda m, p: iclab.torch.readouts(nn.Linear(4, 4), None, p), "no list of like blocks and no LSTM"),
        (lambda m, p: iclab.torch.readouts(Nano(4), None, p), "module(xs, ys) is refused"),
        (lambda m, p: iclab.torch.readouts(m, ["_backbone.wte"], p), "'_backbone.wte' was not run by the module"),
        (lambda m, p: iclab.torch.readouts(m, None, iclab.sample(dim=9, points=12, prompts=4)), "mat1"),
        (lambda m, p: iclab.torch.load_state({"a": torch.zeros(3)}), "the state dict"),
        (lambda m, p: iclab.torch.load_state(3), "model is of type int"),  # type: ignore[arg-type]
    ],
)
def test_refusals(prompts: iclab.Prompts, call: Any, said: str) -> None:
    with pytest.raises((ValueError, RuntimeError)) as raised:
        call(Garg(4), prompts)
    assert said in str(raised.value), str(raised.value)


def test_tensors_are_arrays(prompts: iclab.Prompts) -> None:
    values = torch.tensor(iclab.solver("newton").predict(prompts, "1..=3").values, requires_grad=True)
    exact = iclab.compare(values, "newton", prompts)
    assert exact.best.tolist() == [1.0, 2.0, 3.0]
    assert iclab.compare(values.detach().to(torch.bfloat16), "newton", prompts).similarity.shape[0] == 3
