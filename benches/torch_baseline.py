"""Times one PyTorch training step of the networks that the engine's benchmark times.

    python benches/torch_baseline.py [--device cpu|cuda] [--threads 2] [r1] [small] [lstm] [forward]

Prints one JSON line per case. Run it beside `cargo run --release -p iclab-engine --example bench`
on the same cores; only ratios measured side by side mean anything.
"""
import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def interleave(xs, ys):
    """xs [b, p, d], ys [b, p] -> tokens x1, (y1, 0, ...), x2, ... [b, 2p, d]"""
    b, p, d = xs.shape
    wide = torch.cat((ys.view(b, p, 1), torch.zeros(b, p, d - 1, device=ys.device)), 2)
    return torch.stack((xs, wide), 2).view(b, 2 * p, d)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, e = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(b, t, 3, self.heads, e // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, e)
        x = x + self.proj(a)
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, d=20, positions=202, width=256, layers=12, heads=8):
        super().__init__()
        self.read_in = nn.Linear(d, width)
        self.positions = nn.Parameter(torch.randn(positions, width) * 0.02)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.ln_f, self.read_out = nn.LayerNorm(width), nn.Linear(width, 1)

    def forward(self, xs, ys):
        tokens = interleave(xs, ys)
        h = self.read_in(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            h = block(h)
        return self.read_out(self.ln_f(h))[:, ::2, 0]


class Lstm(nn.Module):
    def __init__(self, d=20, width=256, layers=10):
        super().__init__()
        self.read_in, self.read_out = nn.Linear(d, width), nn.Linear(width, 1)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)

    def forward(self, xs, ys):
        return self.read_out(self.lstm(self.read_in(interleave(xs, ys)))[0])[:, ::2, 0]


def sync(device):
    if device == "cuda":
        torch.cuda.synchronize()


def report(what, name, model, times, loss):
    times = sorted(times)
    params = sum(p.numel() for p in model.parameters())
    print(json.dumps(dict(what=what, name=name, params=params, median_ms=round(times[len(times) // 2], 3),
                          best_ms=round(times[0], 3), loss=loss, torch=torch.__version__)), flush=True)


def train(name, model, device, batch=64, points=41, d=20, warm=2, steps=5):
    model = model.to(device)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, fused=(device == "cuda"))
    xs = torch.randn(batch, points, d, device=device)
    ys = (xs @ torch.randn(batch, d, 1, device=device))[:, :, 0]
    times = []
    for step in range(warm + steps):
        sync(device)
        start = time.perf_counter()
        adam.zero_grad()
        loss = (model(xs, ys) - ys).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        sync(device)
        if step >= warm:
            times.append((time.perf_counter() - start) * 1e3)
    report("train", name, model, times, float(loss))


@torch.no_grad()
def forward(name, model, device, batch=64, points=41, d=20, prompts=1280):
    model = model.to(device)
    xs = torch.randn(batch, points, d, device=device)
    ys = (xs @ torch.randn(batch, d, 1, device=device))[:, :, 0]
    model(xs, ys)
    sync(device)
    start = time.perf_counter()
    for _ in range(prompts // batch):
        model(xs, ys)
    sync(device)
    report("forward-1280-prompts", name, model, [(time.perf_counter() - start) * 1e3], None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("cases", nargs="*", default=[])
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    wanted = lambda case: not args.cases or case in args.cases
    if wanted("r1"):
        train("r1", Gpt2(), args.device)
    if wanted("small"):
        train("small", Gpt2(d=5, positions=22, width=64, layers=3, heads=2), args.device, points=11, d=5,
              warm=10, steps=100)
    if wanted("lstm"):
        train("lstm", Lstm(), args.device)
    if wanted("forward"):
        forward("r1", Gpt2(), args.device)


if __name__ == "__main__":
    main()
