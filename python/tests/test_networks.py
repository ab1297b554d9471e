"""Training, probing, constructing, reproducing; the command line; Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import iclab

SMALL = {"network.layers": 2, "network.width": 16, "training.batch": 16, "training.log_every": 10}


def test_training_tells_and_can_be_stopped(tmp_path: Path) -> None:
    rows: list[iclab.Metrics] = []

    def stop(row: iclab.Metrics) -> None:
        rows.append(row)
        if row["step"] >= 20:
            raise RuntimeError("enough")

    how = {"set": SMALL, "steps": 40, "runs": tmp_path, "device": "cpu"}
    with pytest.raises(RuntimeError, match="enough"):
        iclab.train("miniature", callback=stop, **how)  # type: ignore[arg-type]
    assert [row["step"] for row in rows] == [10, 20] and rows[0]["loss"] > 0
    run = iclab.train("miniature", callback=rows.append, **how)  # type: ignore[arg-type]
    assert [row["step"] for row in rows] == [10, 20, 30, 40], "it went on where it was"
    assert run.result["steps"] == 40 and run.loss > 0
    assert list(run.to_pandas().index) == [10, 20, 30, 40]
    again = iclab.train("miniature", **how)  # type: ignore[arg-type]
    assert again.directory == run.directory and again.result == run.result
    layers = run.learner()
    assert layers.unit == "layer" and layers.steps.tolist() == [1, 2]
    table = iclab.probe(run.directory, look=32)
    assert "read-outs fitted" in repr(table) and len(table.to_pandas()) == 3


def test_bad_experiments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(iclab.Error, match="nothing.toml"):
        iclab.train(tmp_path / "nothing.toml")
    with pytest.raises(ValueError, match="device 'tpu' is unknown; accepted: auto, cpu, cuda"):
        iclab.train("miniature", device="tpu", runs=tmp_path)
    with pytest.raises(iclab.Error, match="training.rat"):
        iclab.train("miniature", set={"training.rat": 1}, runs=tmp_path)


def test_constructions_are_their_algorithm(tmp_path: Path) -> None:
    made = iclab.construct("newton", iterations=5, dim=4, points=10, start="identity", out=tmp_path / "w.safetensors")
    assert made.layers == 7 and made.deviation < 1e-9 and "<svg" in made.figure._repr_html_()
    prompts = iclab.sample(dim=4, points=11, prompts=8)
    built, right = made.learner.predict(prompts, [5]), iclab.solver(made.algorithm).predict(prompts, [5])
    assert np.allclose(built.values[:, :, 10], right.values[:, :, 10], atol=1e-9)
    from_file = iclab.load(f"construct:{tmp_path / 'w.safetensors'}").predict(prompts, [5])
    assert np.array_equal(from_file.values, built.values)
    with pytest.raises(ValueError, match="start 'identity' is of two constructions of Newton"):
        iclab.construct("newton", variant="paper", start="identity")
    with pytest.raises(ValueError, match="outside the convergent range"):
        iclab.construct("newton", dim=4, points=10, step=10.0)


def test_answers_to_queries(prompts: iclab.Prompts) -> None:
    newton = iclab.solver("newton")
    queries = prompts.xs[:, 10:12]
    answers = newton.answers(prompts, queries, [10], steps=[4])
    assert answers.shape == (1, 64, 1, 2)
    assert np.allclose(answers[0, :, 0, 0], newton.predict(prompts, [4]).values[0, :, 10])
    with pytest.raises(ValueError, match="queries have shape"):
        newton.answers(prompts, queries[:3], [10])


def test_patching_finds_labels_in_the_y_tokens_first(tmp_path: Path) -> None:
    run = iclab.train("miniature", set=SMALL, steps=3, runs=tmp_path, device="cpu")
    found = iclab.patch(run.directory, pairs=5, prompts=8, device="cpu")
    assert found.places == ["y tokens", "x tokens", "query"] and found.follows.shape == (2, 3, 3)
    assert found.follows[0, :, 0].tolist() == [1.0, 0.0, 0.0], "before the first layer"
    assert list(found.to_pandas().columns) == found.places and "<svg" in found._repr_html_()
    by_token = iclab.patch(run.directory, pairs=5, prompts=8, by_token=True, part="mlp", donor="both")
    assert by_token.follows.shape == (2, 11, 3)
    with pytest.raises(ValueError, match="donor 'answers' is unknown; accepted: labels, inputs, both"):
        iclab.patch(run.directory, donor="answers")
    with pytest.raises(iclab.Error, match="only a Transformer"):
        iclab.patch("r7", prompts=8)
    with pytest.raises(ValueError, match="device 'tpu' is unknown; accepted: auto, cpu, cuda"):
        iclab.patch(run.directory, device="tpu")


def test_states_of_a_construction_are_its_iterations(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    made = iclab.construct("newton", variant="residual", iterations=3, dim=3, points=8, out=file)
    assert made.layers == 5 and made.deviation < 1e-9
    found = iclab.states(f"construct:{file}", prompts=200)
    there = ("y tokens", "transformed", 4)
    inverse = [d for d in found.decoded if (d["tokens"], d["quantity"], d["layer"]) == there]
    best = max(inverse, key=lambda d: float(d["gain"]["value"]))
    assert best["step"] == 2 and best["gain"]["value"] > 0.999 and abs(best["control"]["value"]) < 0.2
    assert len(found.to_pandas()) == len(found.decoded)
    assert "T_k x" in found.answer and "<svg" in found._repr_html_()
    assert iclab.construct("gd++", iterations=3, dim=3, points=8).layers == 4
    with pytest.raises(ValueError, match="read_out 'tree' is unknown; accepted: affine, mlp"):
        iclab.states(f"construct:{file}", read_out="tree")
    with pytest.raises(ValueError, match="cg has no closed form"):
        iclab.states(f"construct:{file}", algorithm="cg")


def test_an_analysis_has_claims_and_figures(tmp_path: Path) -> None:
    [found] = iclab.reproduce("F26", prompts=32, cache=tmp_path)
    assert found.id == "F26" and found.claims[0].id.startswith("F26.")
    assert found.to_pandas()["verdict"].isin(["holds", "fails", "unsettled", "measured"]).all()
    assert "<svg" in found._repr_html_()
    assert iclab.analyses()["F26"] == found.title
    with pytest.raises(ValueError, match="unknown analysis 'F99'"):
        iclab.reproduce(["F99"])


def test_the_command_line_is_inside(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "iclab", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    version = run("--version")
    assert version.returncode == 0 and version.stdout.strip() == f"iclab {iclab.__version__}"
    wrong = run("compare", "newtn", "gd", "--out", "x")
    assert wrong.returncode == 2 and "did you mean newton?" in wrong.stderr and not (tmp_path / "x").exists()
    assert run("frobnicate").returncode == 2
    # a miniature of few steps, for which it starts itself again
    text = (Path(__file__).resolve().parents[2] / "experiments" / "miniature.toml").read_text(encoding="utf-8")
    (tmp_path / "experiments").mkdir()
    smaller = re.sub(r"(?m)^steps = \d+", "steps = 40", text)
    (tmp_path / "experiments" / "miniature.toml").write_text(smaller, encoding="utf-8")
    quick = run("reproduce", "--quick", "--only", "M1", "--out", "r", "--prompts", "16")
    assert quick.returncode == 0, quick.stderr


@pytest.mark.parametrize(
    "work",
    [
        "iclab.compare('newton', 'gd', 60_000)",
        "iclab.train('r1', device='cpu', runs=sys.argv[1])",
        "iclab.load('r1').predict(iclab.sample(prompts=200_000))",
    ],
)
def test_ctrl_c_is_heard(work: str, tmp_path: Path) -> None:
    code = f"import sys, iclab\nprint('go', flush=True)\ntry:\n    {work}\nexcept KeyboardInterrupt:\n    print('stopped')\n"
    # Where tests run in the background, Ctrl-C is ignored, and what they start would inherit that.
    hears = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, preexec_fn=hears) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "go\n"
            time.sleep(1.5)
            os.kill(process.pid, signal.SIGINT)
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert said == "stopped\n"


def test_importing_is_light(tmp_path: Path) -> None:
    code = "import sys, iclab; print(sorted({'torch', 'pandas', 'matplotlib'} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"
