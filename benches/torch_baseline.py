"""Times one PyTorch training step of the networks that the engine's benchmark times.

    python benches/torch_baseline.py [--device cpu|cuda] [--threads 2] [--seconds 40]
        [--ways graph-bf16,…] [--batches 64,256] [r1] [small] [lstm] [forward]

Prints one JSON line per case. Run it beside `iclab bench train` and `iclab bench forward` on the same cores (or
`iclab bench train --device cuda` on the same GPU); only ratios measured side by
side mean anything.

On a GPU, r1 and lstm are timed at batch 64 and 256 in several ways (--ways, --batches). A step is sampling,
forward, backward, clipping by foreach and fused Adam; "graph" replays it as one CUDA graph.

    authors           eager float32, attention in plain operations, no clipping, Adam as it comes: the paper's stack
    eager-*           eager; tf32 or bf16 (autocast)
    graph-*           the same, captured
    blocks-graph-*    torch.compile of each block by itself, which is compiled once for all of them, captured
    compile-graph-*   torch.compile of the whole network with its loss, captured
    autotune-graph-*  torch.compile(mode="max-autotune-no-cudagraphs"), captured

The LSTM is cuDNN's. A case that fails prints its error and the next one goes on.
"""
import argparse
import contextlib
import gc
import json
import signal
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


PRECISIONS = ("tf32", "bf16")


class PlainBlock(Block):
    """Attention as the paper's code computes it: scores, mask, softmax and product one after the other."""

    def forward(self, x):
        b, t, e = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(b, t, 3, self.heads, e // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (e // self.heads) ** 0.5
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(b, t, e))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


def plain(model):
    for block in getattr(model, "blocks", []):
        block.__class__ = PlainBlock
    return model


def linear_prompts(batch, points, d):
    xs = torch.randn(batch, points, d, device="cuda")
    return xs, (xs @ torch.randn(batch, d, 1, device="cuda"))[:, :, 0]


def cuda_step(model, how, precision, batch, points, d):
    """A function that takes one whole training step: sampling, forward, backward, clipping, Adam."""
    authors, captured = how == "authors", "graph" in how
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, fused=not authors, capturable=captured)
    parameters = list(model.parameters())
    cast = (lambda: torch.autocast("cuda", torch.bfloat16)) if precision == "bf16" else contextlib.nullcontext

    def objective(xs, ys):
        with cast():
            return (model(xs, ys).float() - ys).square().mean()

    if how.startswith("blocks"):
        for block in model.blocks:
            block.compile(dynamic=False)
    if how.startswith("compile"):
        objective = torch.compile(objective, dynamic=False)
    if how.startswith("autotune"):
        objective = torch.compile(objective, mode="max-autotune-no-cudagraphs", dynamic=False)

    def step():
        xs, ys = linear_prompts(batch, points, d)
        adam.zero_grad(set_to_none=True)
        loss = objective(xs, ys)
        loss.backward()
        if not authors:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        adam.step()
        return loss

    if not captured:
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay():
        graph.replay()
        return loss

    return replay


def cuda_case(name, make, how, precision, batch, seconds, points=41, d=20):
    """Chunks of steps, each chunk timed as a whole, until there are seven or the time is up."""
    began = time.perf_counter()
    row = dict(what="train", name=name, device="cuda", how=how, precision=precision, batch=batch)

    def too_long(*_):
        raise TimeoutError(f"not ready after {1.5 * seconds:.0f} s")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(int(1.5 * seconds) + 1)
    try:
        torch.manual_seed(0)
        tf32 = precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        torch.cuda.reset_peak_memory_stats()
        model = make().cuda()
        model = plain(model) if how == "authors" else model
        step = cuda_step(model, how, precision, batch, points, d)
        for _ in range(10):
            loss = step()
        torch.cuda.synchronize()
        ready = time.perf_counter() - began
        times, chunk = [], 50
        while len(times) < 7 and (len(times) < 1 or time.perf_counter() - began < seconds):
            start = time.perf_counter()
            for _ in range(chunk):
                loss = step()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3 / chunk)
        times.sort()
        row.update(params=sum(p.numel() for p in model.parameters()), median_ms=round(times[len(times) // 2], 4),
                   best_ms=round(times[0], 4), chunks=len(times), chunk=chunk, ready_s=round(ready, 1),
                   peak_mib=torch.cuda.max_memory_allocated() >> 20, loss=float(loss),
                   gpu=torch.cuda.get_device_name(), torch=torch.__version__, cuda=torch.version.cuda)
    except Exception as error:  # one way that fails must not lose the others
        row.update(error=f"{type(error).__name__}: {error}".splitlines()[0][:300])
    finally:
        signal.alarm(0)
    print(json.dumps(row), flush=True)


def forget():
    """Frees what a case has left on the GPU and in the compiler."""
    gc.collect()
    with contextlib.suppress(Exception):
        torch._dynamo.reset()
    with contextlib.suppress(Exception):
        torch.cuda.empty_cache()


def cuda_cases(wanted, args):
    kinds = ("eager", "graph", "blocks-graph", "compile-graph", "autotune-graph")
    ways = [("authors", "float32")] + [(f"{kind}-{p}", p) for kind in kinds for p in PRECISIONS]
    chosen = args.ways.split(",") if args.ways else [how for how, _ in ways]
    for batch in map(int, args.batches.split(",")):
        for how, precision in ways:
            # torch.compile leaves an LSTM to cuDNN as it is.
            lstm = wanted("lstm") and not how.startswith(("blocks", "compile", "autotune"))
            for name, make, asked in (("r1", Gpt2, wanted("r1")), ("lstm", Lstm, lstm)):
                if asked and how in chosen:
                    cuda_case(name, make, how, precision, batch, args.seconds)
                    forget()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--seconds", type=float, default=40, help="after so long a case on a GPU is not timed further")
    parser.add_argument("--ways", default="", help="only these ways on a GPU, separated by commas")
    parser.add_argument("--batches", default="64,256", help="batches on a GPU")
    parser.add_argument("cases", nargs="*", default=[])
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    wanted = lambda case: not args.cases or case in args.cases
    if args.device == "cuda":
        cuda_cases(wanted, args)
        if wanted("forward"):
            forward("r1", Gpt2(), args.device)
        return
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
