"""Comparisons: what the command line finds, from names, learners and arrays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import iclab


def command(*arguments: str, cwd: Path) -> str:
    """The command line inside the package."""
    done = subprocess.run([sys.executable, "-m", "iclab", *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_same_bits_as_the_command_line(tmp_path: Path) -> None:
    prompts = iclab.sample(dim=5, points=16, prompts=64, seed=3)
    task = ["--dim", "5", "--points", "16", "--seed", "3"]
    command("sample", *task, "--prompts", "64", "--out", "p.npz", cwd=tmp_path)
    command("predict", "newton", "--steps", "0..=12", "--prompts", "p.npz", "--out", "o.npz", cwd=tmp_path)
    with np.load(tmp_path / "p.npz") as file:
        assert np.array_equal(file["xs"], prompts.xs) and np.array_equal(file["ys"], prompts.ys)
    newton = iclab.solver("newton").predict(prompts, "0..=12")
    with np.load(tmp_path / "o.npz") as file:
        assert np.array_equal(file["values"], newton.values)
        assert np.array_equal(file["steps"], newton.steps)
    said = command(
        "compare", "newton", "gd", *task, "--prompts", "64", "--steps-a", "0..=12", "--out", "c", "--json", cwd=tmp_path
    )
    theirs = json.loads(said)
    ours = iclab.compare("newton", "gd", prompts, steps_a="0..=12", seed=3)
    assert np.array_equal(ours.best_similarity, np.array(theirs["similarity"]))
    assert ours.best.tolist() == theirs["best"] and ours.floor == theirs["floor"]
    assert ours.fit is not None and theirs["settled"] == ours.fit.settled
    assert ours.fit.points == [tuple(point) for point in theirs["rate"]["points"]]
    low, high = theirs["rate"]["exponential_interval"]  # in natural logarithms
    assert ours.fit.exponential[1:] == pytest.approx((low / np.log(2), high / np.log(2)), rel=1e-14)
    by_names = iclab.compare("newton", "gd", 64, steps_a="0..=12")
    assert by_names.summary.startswith("SimE, linear on gaussian inputs, d=20, 64 prompts")


def test_an_array_is_compared_as_it_lies(prompts: iclab.Prompts) -> None:
    newton = iclab.solver("newton").predict(prompts, range(13))
    by_learner = iclab.compare(iclab.solver("newton"), "gd", prompts, steps_a=range(13))
    by_array = iclab.compare(newton.values, "gd", prompts, steps_a=list(range(13)))
    assert np.array_equal(by_array.similarity, by_learner.similarity)
    assert np.array_equal(by_array.intervals, by_learner.intervals)
    assert by_array.a == "mine" and by_learner.a == "Newton"
    by_trajectory = iclab.compare(newton, "gd", prompts)
    assert np.array_equal(by_trajectory.similarity, by_learner.similarity)
    coarse = iclab.compare(newton.values.astype(np.float32), "gd", prompts)
    assert np.allclose(coarse.similarity[1:], by_learner.similarity[1:], atol=1e-4)
    fortran = iclab.compare(np.asfortranarray(newton.values), "gd", prompts)
    assert np.array_equal(fortran.similarity, by_learner.similarity)
    one = iclab.compare(newton.values[5], "newton", prompts, steps_b="0..=12")
    assert one.best.tolist() == [5.0]


def test_the_result_is_whole(prompts: iclab.Prompts, tmp_path: Path) -> None:
    found = iclab.compare("newton", "gd", prompts, steps_a="0..=16", over=(3, 16))
    assert found.similarity.shape == (17, len(found.steps_b)) and found.per_prompt.shape[2] == 64
    assert found.fit is not None and found.fit.settled == "exponential"
    assert 0.4 < found.fit.exponential.low < found.fit.exponential.high < 0.8
    frame = found.to_pandas()
    assert list(frame.columns) == ["best", "low", "high", "interpolated", "similarity"] and len(frame) == 17
    assert (frame["low"] <= frame["high"]).all()
    assert found.figure._repr_html_().startswith("<figure") and "<svg" in found._repr_html_()
    assert [figure.id for figure in found.figures] == ["map", "best-match"]
    assert found.figures["best-match"].csv.count("\n") > 10
    for ending in ["svg", "png", "csv"]:
        assert found.figure.save(tmp_path / f"map.{ending}").stat().st_size > 100
    page = found.save(tmp_path / "page")
    assert page.name == "index.html" and page.is_file()
    assert "Newton against GD" in repr(found)
    assert found.tables[0].to_pandas().shape[0] == 17
    few = iclab.compare("newton", "ols", prompts, steps_a="0..=3")
    assert few.fit is None and few.why_no_fit is not None and few.why_no_fit.startswith("No rate")


def test_weights_and_distances(prompts: iclab.Prompts) -> None:
    weights = iclab.compare("newton", "gd", prompts.head(8), measure="simw", from_pairs=8, steps_a="2..=6")
    assert weights.measure == "SimW"
    assert np.nanmax(iclab.compare("newton", "newton", prompts, measure="l2e").best_similarity) == 0.0


def test_shipped_networks_and_their_layers() -> None:
    prompts = iclab.sample(prompts=16)
    network = iclab.load("r1")
    assert network.unit == "layer" and network.steps.tolist() == list(range(1, 13))
    found = iclab.compare(network, "newton", prompts, steps_b="0..=26")
    assert np.nanmax(found.best) > 15 and found.best_similarity[-1] > 0.95
    own = iclab.load("r1", readout="own").predict(prompts)
    assert own.values.shape == (1, 16, 41)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda p, n: iclab.compare(n[:, :5], "gd", p), "a has shape (3, 5, 16); accepted: [steps, prompts, points] = (3, 64, 16)"),
        (lambda p, n: iclab.compare("gd", n[0, 0], p), "b has shape [16]; accepted: [steps, prompts, points]"),
        (lambda p, n: iclab.compare(np.where(n > 0, n, np.nan), "gd", p), "is NaN; accepted: finite predictions"),
        (lambda p, n: iclab.compare(n, "gd"), "accepted: prompts=Prompts"),
        (lambda p, n: iclab.compare(n, "gd", p, steps_a=[1, 2]), "steps_a has 2 steps, and a has 3"),
        (lambda p, n: iclab.compare(n, "gd", p, measure="simw"), "predictions at the points of 64 prompts"),
        (lambda p, n: iclab.compare(n, "gd", p, measure="cosine"), "measure 'cosine' is unknown; accepted: sime, simw"),
        (lambda p, n: iclab.compare("newtn", "gd", p), "unknown solver 'newtn'; did you mean newton?"),
        (lambda p, n: iclab.compare("newton", "gd", p, steps_a="x"), "steps 'x'"),
        (lambda p, n: iclab.compare("newton", "gd", p, steps_a=[-1]), "steps_a has -1"),
        (lambda p, n: iclab.compare("newton", "gd", p, from_pairs=16), "t below 16"),
        (lambda p, n: iclab.compare(None, "gd", p), "a is of type NoneType"),
        (lambda p, n: iclab.compare("newton", "gd", "p.npz"), "prompts is 'p.npz'"),  # type: ignore[arg-type]
        (lambda p, n: iclab.compare("run:r1", "gd", iclab.sample(dim=30, points=16, prompts=2)), "at most 20"),
        (lambda p, n: iclab.solver("newton").predict(p.xs), "prompts is of type ndarray; accepted: iclab.Prompts"),
    ],
)
def test_refusals(prompts: iclab.Prompts, call: object, said: str) -> None:
    newton = iclab.solver("newton").predict(prompts, "1..=3").values
    with pytest.raises(ValueError) as raised:
        call(prompts, newton)  # type: ignore[operator]
    assert isinstance(raised.value, iclab.Error) and said in str(raised.value), str(raised.value)
    assert "\n" not in str(raised.value)
