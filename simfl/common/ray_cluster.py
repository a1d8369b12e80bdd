"""Connects to a Ray cluster."""

from __future__ import annotations

from typing import Any

GIVE_UP_S = 600.0
"""Seconds after which a worker that does not answer counts as hung. Requests are made to take
seconds; ten minutes is what a machine takes that swaps, or a file system that comes back."""


class MissingRay(RuntimeError):
    """Ray is not installed, or no cluster answers."""


def connect(address: str = "auto") -> Any:
    """The module `ray`, connected; raises `MissingRay`.

    `address`: a cluster's, "auto" for the one that this machine belongs to, "local" for one that
    is begun on this machine and ends with this process.
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
