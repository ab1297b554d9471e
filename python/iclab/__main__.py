"""The command line: ``iclab …`` and ``python -m iclab …``."""

import signal
import sys

from . import _iclab


def main() -> int:
    """Runs the command line with Python's arguments; returns its exit code."""
    # as in a program of its own: Ctrl-C ends it or is heard by the command, and so does a reader who leaves
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return _iclab.command(["iclab", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
