"""What tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import iclab

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("ICLAB_MODELS", str(ROOT / "models"))


@pytest.fixture(scope="session")
def prompts() -> iclab.Prompts:
    """Small prompts of linear regression."""
    return iclab.sample("linear", dim=5, points=16, prompts=64, seed=3)
