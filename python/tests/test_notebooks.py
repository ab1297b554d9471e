"""The notebooks run from top to bottom, and still show what the committed ones show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("torch")

# A minute of training, made smaller; what is shown stays the same in kind.
SMALLER = {"own-model.ipynb": ("STEPS = 2000", "STEPS = 300")}
NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def pictures(notebook: Any) -> list[int]:
    """How many pictures each cell shows."""
    outputs = [cell.get("outputs", []) for cell in notebook.cells]
    html = [[str(out.get("data", {}).get("text/html", "")) for out in cell] for cell in outputs]
    return [sum(len(re.findall("<svg", text)) for text in cell) for cell in html]


@pytest.mark.parametrize("name", sorted(path.name for path in NOTEBOOKS.glob("*.ipynb")))
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    committed = nbformat.read(NOTEBOOKS / name, as_version=4)
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    long, short = SMALLER.get(name, ("", ""))
    if long:
        assert sum(long in cell.source for cell in notebook.cells) == 1
        for cell in notebook.cells:
            cell.source = cell.source.replace(long, short)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert pictures(notebook) == pictures(committed)
    assert sum(pictures(notebook)) >= 2
