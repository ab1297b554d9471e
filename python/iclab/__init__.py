"""Which algorithm does a sequence model run when it learns in context?

>>> import iclab
>>> prompts = iclab.sample("linear", dim=5, points=16, prompts=64)
>>> found = iclab.compare("newton", "gd", prompts, over=(3, 16))
>>> found.fit.settled
'exponential'

Prompts go in, learners predict along their steps, pairs of trajectories are compared, claims and figures come out.
"""

import sys as _sys
from typing import TYPE_CHECKING as _CHECKING

from . import _iclab
from ._arrays import Estimate
from ._comparison import Comparison, Rate, compare
from ._construct import Construction, construct
from ._errors import ArgumentError, Error
from ._figures import Figure, Figures, Table
from ._fingerprint import AfterPairs, Candidate, Fingerprint, fingerprint
from ._learners import Learner, Probe, Trajectory, load, probe, solver
from ._patching import Patching, patch
from ._prompts import Prompts, sample
from ._reproduction import Analysis, Claim, analyses, reproduce
from ._states import States, states
from ._training import Metrics, Run, train

if _CHECKING:
    from . import torch as torch


def __getattr__(name: str) -> object:
    # PyTorch takes seconds to import: only when somebody asks
    if name == "torch":
        from importlib import import_module

        return import_module("iclab.torch")
    raise AttributeError(f"module 'iclab' has no attribute {name!r}")


_iclab.embed(str(_iclab.__file__), [_sys.executable, "-m", "iclab"])

__version__ = _iclab.__version__

__all__ = [
    "AfterPairs",
    "Analysis",
    "ArgumentError",
    "Candidate",
    "Claim",
    "Comparison",
    "Construction",
    "Error",
    "Estimate",
    "Figure",
    "Figures",
    "Fingerprint",
    "Learner",
    "Metrics",
    "Patching",
    "Probe",
    "Prompts",
    "Rate",
    "Run",
    "States",
    "Table",
    "Trajectory",
    "__version__",
    "analyses",
    "compare",
    "construct",
    "fingerprint",
    "load",
    "patch",
    "probe",
    "reproduce",
    "sample",
    "solver",
    "states",
    "train",
]
