"""A folder for the Hugging Face hub: its card runs as printed, and loads the same network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iclab

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("safetensors")


@pytest.mark.parametrize("name", ["r1", "r7"])
def test_the_card_runs_as_printed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "hub"
    command = [sys.executable, "-m", "iclab", "export", name, "--hub", str(folder)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert {path.name for path in folder.iterdir()} >= {"config.json", "model.safetensors", "README.md"}
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\n")
    [code] = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    prompts = iclab.sample(prompts=64, seed=7)
    theirs = names["predict"](torch.tensor(prompts.xs).float(), torch.tensor(prompts.ys).float()).numpy()
    ours = iclab.load(name, readout="own").predict(prompts).values[0]
    assert np.abs(theirs - ours).max() < 1e-5 * np.abs(ours).max()
