"""Makes the golden files of the engine's tests: a small GPT-2 (Hugging Face) and a small LSTM (torch.nn.LSTM).

    pip install torch transformers safetensors numpy
    python scripts/golden/make.py crates/engine/tests/golden

Weights and inputs are float32 numbers; everything computed from them is computed in float64 and stored rounded to
float32, so the files hold the truth and not another program's rounding. The committed files were made with
torch 2.15.0, transformers 5.22.2, safetensors 0.8.0; each file also names the versions in its metadata.

Tensors in a file: tokens [b, t, d], targets [b, p], hidden.<l> [b, t, e], last [b, t, e], predictions [b, p],
loss [1], param/<name>, grad/<name>, adam/<name> (parameters after three steps on the same batch), norm [3].
"""
import sys

import safetensors
import torch
import transformers
from safetensors.torch import save_file
from torch import nn

RATE, CLIP, STEPS = 1e-3, 1.0, 3


def random_(parameters):
    """Every parameter, biases and LayerNorm gains included, gets values that no symmetry hides."""
    with torch.no_grad():
        for parameter in parameters:
            centre = 1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0
            parameter.copy_(centre + 0.2 * torch.randn_like(parameter))


def batch(d, points, prompts):
    xs = torch.randn(prompts, points, d)
    ys = (xs @ torch.randn(prompts, d, 1))[:, :, 0]
    wide = torch.cat((ys[:, :, None], torch.zeros(prompts, points, d - 1)), 2)
    return torch.stack((xs, wide), 2).view(prompts, 2 * points, d), ys


class Gpt2(nn.Module):
    def __init__(self, d, width, layers, heads, positions):
        super().__init__()
        config = transformers.GPT2Config(n_positions=positions, n_embd=width, n_layer=layers, n_head=heads,
                                         resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
                                         vocab_size=1, attn_implementation="eager")
        self.read_in, self.read_out = nn.Linear(d, width), nn.Linear(width, 1)
        self.body = transformers.GPT2Model(config)

    def forward(self, tokens):
        hidden = []
        hook = lambda _, __, out: hidden.append(out[0] if isinstance(out, tuple) else out)
        hooks = [block.register_forward_hook(hook) for block in self.body.h]
        first = self.read_in(tokens)
        last = self.body(inputs_embeds=first).last_hidden_state
        for handle in hooks:
            handle.remove()
        hidden.insert(0, first + self.body.wpe.weight[: tokens.shape[1]])
        return hidden, last, self.read_out(last)[:, ::2, 0]

    def names(self):
        for name, parameter in self.named_parameters():
            if "wte" not in name:
                yield name.removeprefix("body."), parameter


class Lstm(nn.Module):
    def __init__(self, d, width, layers):
        super().__init__()
        self.read_in, self.read_out = nn.Linear(d, width), nn.Linear(width, 1)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)

    def forward(self, tokens):
        hidden = [self.read_in(tokens)]
        for layer in range(self.lstm.num_layers):
            one = nn.LSTM(self.lstm.hidden_size, self.lstm.hidden_size, 1, batch_first=True).to(tokens.dtype)
            with torch.no_grad():
                for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    getattr(one, f"{part}_l0").copy_(getattr(self.lstm, f"{part}_l{layer}"))
            hidden.append(one(hidden[-1])[0].detach())
        last = self.lstm(self.read_in(tokens))[0]
        return hidden, last, self.read_out(last)[:, ::2, 0]

    def names(self):
        return self.named_parameters()


def write(path, model, d, points, prompts, epsilon):
    random_(model.parameters())
    tokens, ys = batch(d, points, prompts)
    model, tokens, ys = model.double(), tokens.double(), ys.double()
    out = {"tokens": tokens, "targets": ys}
    out |= {f"param/{name}": parameter.detach().clone() for name, parameter in model.names()}
    adam = torch.optim.Adam([p for _, p in model.names()], lr=RATE, betas=(0.9, 0.999), eps=epsilon)
    norms = []
    for step in range(STEPS):
        adam.zero_grad()
        hidden, last, predictions = model(tokens)
        loss = (predictions - ys).square().mean()
        loss.backward()
        if step == 0:
            out |= {f"hidden.{layer}": h for layer, h in enumerate(hidden)}
            out |= {"last": last, "predictions": predictions, "loss": loss.view(1)}
            out |= {f"grad/{name}": parameter.grad.clone() for name, parameter in model.names()}
        norms.append(nn.utils.clip_grad_norm_([p for _, p in model.names()], CLIP))
        adam.step()
    out |= {f"adam/{name}": parameter for name, parameter in model.names()}
    out["norm"] = torch.stack(norms)
    out = {name: tensor.detach().float().contiguous().clone() for name, tensor in out.items()}
    versions = {"torch": torch.__version__, "transformers": transformers.__version__,
                "safetensors": safetensors.__version__, "rate": str(RATE), "clip": str(CLIP), "epsilon": str(epsilon)}
    save_file(out, path, metadata=versions)
    print(path, {name: value for name, value in versions.items()})


def main():
    folder = sys.argv[1]
    torch.manual_seed(7)
    # The gradient of key biases is 0 in theory: a larger epsilon keeps Adam from blowing its rounding up.
    write(f"{folder}/gpt2.safetensors", Gpt2(4, 16, 2, 2, 12), 4, 5, 3, 1e-6)
    write(f"{folder}/lstm.safetensors", Lstm(3, 12, 3), 3, 5, 3, 1e-8)


if __name__ == "__main__":
    main()
