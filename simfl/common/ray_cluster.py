"""Connects to a Ray cluster."""

from __future__ import annotations

from typing import Any

GIVE_UP_S = 600.0
"""Seconds without an answer after which a worker counts as hung. Requests take seconds; a machine
that swaps or a file system that reconnects may take ten minutes.
"""


class MissingRay(RuntimeError):
    """Ray is not installed, or no cluster answers."""


def connect(address: str = "auto") -> Any:
    """The module `ray`, connected to a cluster; raises `MissingRay`.

    `address`: a cluster's address, "auto" for the one this machine belongs to, or "local" for one
    that is started on this machine and ends with this process.
    """
    try:
        import ray
    except ImportError:
        raise MissingRay("--engine ray needs Ray: pip install 'simfl[ray]'") from None
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, ValueError) as error:
            raise MissingRay(
                f"no Ray cluster at {address!r}: {error} (--address local begins one here)"
            ) from None
    return ray
