"""Times the classical solvers as a plain batched PyTorch program, beside `iclab bench solvers`.

    python benches/torch_solvers.py [--threads 2] [--repeat 5] [--dims 20,50,100,200] [--only newton,gd]

Prefix sums give S and c of every prefix of every prompt; Newton, CG and BFGS are batched products over all prefixes at once,
GD goes through `torch.linalg.eigh`; everything in float64. Prompts and positions are those of `iclab bench solvers`. Prints
one JSON line per case: only ratios measured side by side on the same cores mean anything.
"""
import argparse
import json
import time

import torch

# Prompts and positions at each dimension: as in `iclab bench solvers`.
SIZES = {5: (320, 41), 10: (320, 41), 20: (320, 41), 50: (64, 101), 100: (16, 201), 200: (4, 401)}


def prefixes(xs, ys):
    """S [n,d,d], c [n,d] and the query [n,d] of every prefix of every prompt; n = prompts * positions."""
    b, p, d = xs.shape
    outer = (xs.unsqueeze(-1) * xs.unsqueeze(-2)).cumsum(1)
    moments = (xs * ys.unsqueeze(-1)).cumsum(1)
    s, c = torch.zeros_like(outer), torch.zeros_like(moments)
    s[:, 1:], c[:, 1:] = outer[:, :-1], moments[:, :-1]
    return s.reshape(b * p, d, d), c.reshape(b * p, d), xs.reshape(b * p, d)


def answer(w, x):
    return (w * x).sum(-1)


def newton(s, c, x, steps):
    alpha = 1 / torch.linalg.matrix_norm(s @ s)
    alpha = torch.where(alpha.isfinite(), alpha, torch.zeros_like(alpha))
    m, answers = alpha[:, None, None] * s, []
    for _ in range(steps):
        m = 2 * m - m @ s @ m
        answers.append(answer((m @ c.unsqueeze(-1)).squeeze(-1), x))
    return torch.stack(answers)


def gd(s, c, x, steps, eta=0.01):
    values, vectors = torch.linalg.eigh(s)
    values = values.clamp_min(0)
    along = (vectors.mT @ c.unsqueeze(-1)).squeeze(-1) * (vectors.mT @ x.unsqueeze(-1)).squeeze(-1)
    answers = []
    for k in steps:
        f = torch.where(values * eta * k < 1e-8, eta * k, (1 - (1 - eta * values) ** k) / values)
        answers.append((f * along).sum(-1))
    return torch.stack(answers)


def cg(s, c, x, steps):
    w, r, p = torch.zeros_like(c), c.clone(), c.clone()
    done, answers = (c * c).sum(-1) * 1e-30, []
    for _ in range(steps):
        power = (r * r).sum(-1)
        going = (power > done).unsqueeze(-1)
        sp = (s @ p.unsqueeze(-1)).squeeze(-1)
        a = (power / (p * sp).sum(-1)).unsqueeze(-1)
        w, r_next = torch.where(going, w + a * p, w), torch.where(going, r - a * sp, r)
        beta = ((r_next * r_next).sum(-1) / power).unsqueeze(-1)
        p, r = torch.where(going, r_next + beta * p, p), r_next
        answers.append(answer(w, x))
    return torch.stack(answers)


def bfgs(s, c, x, t, steps):
    """Exact line search on the loss |y - Xw|^2 / 2t."""
    n, d = c.shape
    t = t.clamp_min(1).unsqueeze(-1)
    w, g = torch.zeros_like(c), -c / t
    b = torch.eye(d, dtype=c.dtype).expand(n, d, d).clone()
    done, answers = (g * g).sum(-1) * 1e-30, []
    for _ in range(steps):
        going = ((g * g).sum(-1) > done).unsqueeze(-1)
        p = -(b @ g.unsqueeze(-1)).squeeze(-1)
        sp = (s @ p.unsqueeze(-1)).squeeze(-1) / t
        length = -(g * p).sum(-1, keepdim=True) / (p * sp).sum(-1, keepdim=True)
        moved = torch.where(going, length * p, torch.zeros_like(p))
        change = torch.where(going, length * sp, torch.zeros_like(p))
        w, g = w + moved, g + change
        sy = (moved * change).sum(-1)[:, None, None]
        by = (b @ change.unsqueeze(-1)).squeeze(-1)
        yby = (change * by).sum(-1)[:, None, None]
        ss, cross = moved[:, :, None] * moved[:, None, :], by[:, :, None] * moved[:, None, :]
        b = torch.where(going.unsqueeze(-1), b + (1 + yby / sy) * ss / sy - (cross + cross.mT) / sy, b)
        answers.append(answer(w, x))
    return torch.stack(answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--dims", default="20,50,100,200")
    parser.add_argument("--only", help="solvers by name; all when left out")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    linear = [1, *range(50, 1301, 50)]
    powers = [2**k for k in range(13)]
    for d in map(int, args.dims.split(",")):
        count, points = SIZES[d]
        xs = torch.randn(count, points, d, dtype=torch.float64)
        ys = (xs @ torch.randn(count, d, 1, dtype=torch.float64)).squeeze(-1)
        t = torch.arange(points, dtype=torch.float64).repeat(count)
        cases = {
            "newton": lambda: newton(*prefixes(xs, ys), 23),
            "gd": lambda: gd(*prefixes(xs, ys), linear),
            "gd-powers": lambda: gd(*prefixes(xs, ys), powers),
            "cg": lambda: cg(*prefixes(xs, ys), 25),
            "bfgs": lambda: bfgs(*prefixes(xs, ys), t, 25),
        }
        for name, work in cases.items():
            if args.only and name not in args.only.split(","):
                continue
            work()
            times = []
            for _ in range(args.repeat):
                start = time.perf_counter()
                work()
                times.append(time.perf_counter() - start)
            times.sort()
            print(json.dumps(dict(solver=name, dim=d, prompts=count, positions=points, threads=args.threads,
                                  seconds=round(times[len(times) // 2], 4), torch=torch.__version__)), flush=True)


if __name__ == "__main__":
    main()
