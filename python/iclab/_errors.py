"""What is raised: one sentence that names what was given and what would be accepted."""


class Error(Exception):
    """Something could not be done: a file, a device, a network that is not there."""


class ArgumentError(Error, ValueError):
    """An argument makes no sense; also a ``ValueError``."""
