"""Prompts: the same bits as the command line's, views without a copy, refusals that name the argument."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import iclab


def test_arrays_are_views_that_cannot_be_written_to(prompts: iclab.Prompts) -> None:
    assert prompts.xs.shape == (64, 16, 5) and prompts.ys.shape == (64, 16)
    assert prompts.xs.dtype == np.float64
    assert prompts.xs.ctypes.data == prompts.xs.ctypes.data, "the same memory each time"
    assert not prompts.xs.flags.owndata and not prompts.xs.flags.writeable
    with pytest.raises(ValueError):
        prompts.xs[0, 0, 0] = 1.0
    xs = iclab.sample(dim=2, points=4, prompts=3).xs
    assert np.isfinite(xs).all(), "a view outlives the name of its prompts"


def test_first_goes_on_where_others_ended(prompts: iclab.Prompts) -> None:
    rest = iclab.sample("linear", dim=5, points=16, prompts=8, seed=3, first=60)
    assert np.array_equal(rest.ys[:4], prompts.ys[60:])
    assert np.array_equal(prompts.head(5).xs, prompts.xs[:5])


def test_files_are_those_of_the_command_line(prompts: iclab.Prompts, tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    prompts.write(path)
    again = iclab.Prompts.read(path)
    assert np.array_equal(again.xs, prompts.xs) and again.function is None
    with np.load(path) as file:
        assert sorted(file.files) == ["fingerprint", "xs", "ys"]


def test_own_arrays_of_any_kind(prompts: iclab.Prompts) -> None:
    for xs in [prompts.xs, prompts.xs.astype(np.float32), np.asfortranarray(prompts.xs), prompts.xs[::-1]]:
        assert len(iclab.Prompts(xs, prompts.ys)) == 64
    assert iclab.Prompts([[[1.0], [2.0]]], [[1, 2]]).points == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda p: iclab.Prompts(p.xs[0], p.ys), "xs has shape [16, 5]; accepted: [prompts, points, dimensions]"),
        (lambda p: iclab.Prompts(p.xs, p.ys[:, :3]), "accepted: ys of shape [64, 16]"),
        (lambda p: iclab.Prompts(p.xs.astype(str), p.ys), "xs has dtype <U32"),
        (lambda p: iclab.Prompts(np.full_like(p.xs, np.nan), p.ys), "xs[0, 0, 0] is NaN"),
        (lambda p: iclab.sample(dim=0), "dim is 0; accepted: a whole number, 1 to 1024"),
        (lambda p: iclab.sample(prompts=2.5), "prompts is 2.5; accepted: a whole number"),  # type: ignore[arg-type]
        (lambda p: iclab.sample("lineer"), "unknown function 'lineer'; did you mean"),
        (lambda p: iclab.sample(inputs="skewed:kapa=3"), "no setting 'kapa'"),
    ],
)
def test_refusals(prompts: iclab.Prompts, given: object, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        given(prompts)  # type: ignore[operator]
    assert isinstance(raised.value, iclab.Error) and said in str(raised.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(iclab.Error, match="cannot read .*nothing.npz"):
        iclab.Prompts.read(tmp_path / "nothing.npz")
