"""Makes the PyTorch checkpoints that the tests of the import read, and the predictions that must come out.

    pip install torch transformers safetensors numpy
    python scripts/golden/make_interchange.py crates/engine/tests/golden

    garg.pt         state.pt of Garg et al.: model, Adam's state after two steps, train_step; old constants, wte
    bare.pt         a bare state dict, data-parallel and compiled, pickle protocol 4
    half.pt         a bare state dict in float16, with one parameter in bfloat16 and one in float64
    views.pt        all parameters are views of one storage, one of them transposed
    lstm.pt         a torch.nn.LSTM between read-in and read-out
    legacy.pt       the format of before PyTorch 1.6 (must be refused with a sentence)
    module.pt       a pickled nn.Module instead of a state dict (must be refused, not executed)
    interchange.safetensors   tokens/<file> [b, t, d] and predictions/<file> [b, p], computed in float64

The committed files were made with torch 2.15.0, transformers 5.22.2, safetensors 0.8.0.
"""
import copy
import sys

import torch
import transformers
from safetensors.torch import save_file
from torch import nn

from make import batch, random_


class TransformerModel(nn.Module):
    """The network of Garg et al., with their names."""

    def __init__(self, d, width, layers, heads, positions):
        super().__init__()
        config = transformers.GPT2Config(n_positions=positions, n_embd=width, n_layer=layers, n_head=heads,
                                         resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
                                         vocab_size=3, attn_implementation="eager")
        self._read_in = nn.Linear(d, width)
        self._backbone = transformers.GPT2Model(config)
        self._read_out = nn.Linear(width, 1)

    def forward(self, tokens):
        hidden = self._backbone(inputs_embeds=self._read_in(tokens)).last_hidden_state
        return self._read_out(hidden)[:, ::2, 0]


class LstmModel(nn.Module):
    def __init__(self, d, width, layers):
        super().__init__()
        self._read_in = nn.Linear(d, width)
        self._backbone = nn.LSTM(width, width, layers, batch_first=True)
        self._read_out = nn.Linear(width, 1)

    def forward(self, tokens):
        return self._read_out(self._backbone(self._read_in(tokens))[0])[:, ::2, 0]


def old_constants(state, positions):
    """What transformers stored until version 4.31."""
    for name in [name for name in state if name.endswith("attn.c_attn.weight")]:
        stem = name.removesuffix("c_attn.weight")
        state[stem + "bias"] = torch.ones(positions, positions).tril().bool().view(1, 1, positions, positions)
        state[stem + "masked_bias"] = torch.tensor(-1e4)
    return state


def as_views(state):
    """The same tensors inside one storage; the read-in is stored the other way round."""
    flat = torch.cat([(t.T if name == "_read_in.weight" else t).reshape(-1) for name, t in state.items()])
    out, at = type(state)(), 0
    for name, t in state.items():
        part = flat[at : at + t.numel()]
        out[name] = part.view(t.T.shape).T if name == "_read_in.weight" else part.view(t.shape)
        at += t.numel()
    return out


def main():
    folder = sys.argv[1]
    torch.manual_seed(11)
    out = {}

    def record(name, model, d):
        tokens, ys = batch(d, 4, 2)
        predictions = copy.deepcopy(model).double()(tokens.double())
        out[f"tokens/{name}"], out[f"predictions/{name}"] = tokens, predictions
        return tokens, ys

    model = TransformerModel(3, 8, 2, 2, 10)
    random_(model.parameters())
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(2):
        tokens, ys = batch(3, 4, 2)
        adam.zero_grad()
        (model(tokens) - ys).square().mean().backward()
        adam.step()
    record("garg.pt", model, 3)
    state = {"model_state_dict": old_constants(model.state_dict(), 10), "optimizer_state_dict": adam.state_dict(),
             "train_step": 2}
    torch.save(state, f"{folder}/garg.pt")

    model = TransformerModel(2, 8, 1, 4, 8)
    random_(model.parameters())
    record("bare.pt", model, 2)
    wrapped = {f"module._orig_mod.{name}": tensor for name, tensor in model.state_dict().items()}
    torch.save(wrapped, f"{folder}/bare.pt", pickle_protocol=4)

    record("views.pt", model, 2)
    torch.save(as_views(model.state_dict()), f"{folder}/views.pt")

    model = model.half()
    model._read_in.weight.data = model._read_in.weight.data.bfloat16()
    model._read_out.bias.data = model._read_out.bias.data.double()
    record("half.pt", model, 2)
    torch.save(model.state_dict(), f"{folder}/half.pt")

    model = LstmModel(2, 6, 2)
    random_(model.parameters())
    record("lstm.pt", model, 2)
    torch.save({"model_state_dict": model.state_dict(), "train_step": 7}, f"{folder}/lstm.pt")

    torch.save({"_read_in.weight": torch.ones(1)}, f"{folder}/legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(nn.Linear(1, 1), f"{folder}/module.pt")
    out = {name: tensor.detach().float().contiguous() for name, tensor in out.items()}
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    save_file(out, f"{folder}/interchange.safetensors", metadata=versions)


if __name__ == "__main__":
    main()
