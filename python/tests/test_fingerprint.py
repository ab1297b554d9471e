"""Fingerprints."""

from __future__ import annotations

import numpy as np
import pytest

import iclab


def test_newton_from_the_identity_is_named() -> None:
    prompts = iclab.sample(dim=5, points=16, prompts=96, seed=1)
    found = iclab.fingerprint("newton:start=identity", prompts=prompts, steps="0..=8", knots=8, unit="norm")
    assert "newton:start=identity" in found.names and "gd:eta=fro" in found.names
    assert found.candidates[0].leaves.value < 1e-6 and found.candidates[0].tied
    after = found.after[10]
    assert after.filters.shape == (9, 8, 3) and after.eigenvalues.shape == (8,)
    assert abs(after.a.value - 2) < 0.05 and abs(after.b.value - 1) < 0.05
    assert after.iterations.low <= after.iterations.value <= after.iterations.high
    frame = found.to_pandas()
    assert len(frame) == len(found.after) * 9 * 8 and {"pairs", "iteration", "eigenvalue"} <= set(frame.columns)
    assert found.numbers["names"] == found.names
    assert [figure.id for figure in found.figures] == ["filters", "return-map", "left"]


def test_a_learner_and_its_name_have_the_same_fingerprint() -> None:
    prompts = iclab.sample(dim=4, points=12, prompts=64)
    how = {"against": ["newton", "gd"], "steps": "0..=6", "knots": 5, "unit": "one"}
    by_name = iclab.fingerprint("newton", prompts=prompts, **how)  # type: ignore[arg-type]
    by_learner = iclab.fingerprint(iclab.solver("newton"), prompts=prompts, **how)  # type: ignore[arg-type]
    for pairs, after in by_name.after.items():
        assert np.array_equal(after.filters, by_learner.after[pairs].filters, equal_nan=True)
    made = iclab.construct(iterations=8, dim=4, points=11)
    built = iclab.fingerprint(made.learner, [made.algorithm, "gd"], prompts, steps="0..=6", knots=5)
    assert built.names == [made.algorithm]


def test_own_prompts_say_nothing_of_their_distribution() -> None:
    sampled = iclab.sample(dim=4, points=12, prompts=64)
    found = iclab.fingerprint("newton", ["newton"], iclab.Prompts(sampled.xs, sampled.ys), steps="0..=6", knots=5)
    assert any("does not tell the distribution of its inputs" in note for note in found.notes)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda p: iclab.fingerprint("newton", prompts=p, knots=40), "filters at 40 knots from 64 prompts"),
        (lambda p: iclab.fingerprint("newton", prompts=p, unit="metre"), "unit 'metre' is unknown; accepted: auto"),
        (lambda p: iclab.fingerprint("newton", prompts=p, pairs=[40]), "40 pairs"),
        (lambda p: iclab.fingerprint(3, prompts=p), "learner is of type int"),  # type: ignore[arg-type]
        (
            lambda p: iclab.fingerprint("newton", prompts=iclab.sample("relu-2nn", dim=4, points=12, prompts=64), knots=4),
            "linear",
        ),
    ],
)
def test_refusals(call: object, said: str) -> None:
    with pytest.raises(ValueError, match=".") as raised:
        call(iclab.sample(dim=4, points=12, prompts=64))  # type: ignore[operator]
    assert said in str(raised.value), str(raised.value)
