"""Settings of measures with one number for all clients, or one for each."""

from __future__ import annotations


def require_one_each(name: str, value: object, client_count: int) -> None:
    """Raises ValueError, beginning with the setting's `name`, for a list of another length."""
    if isinstance(value, tuple) and len(value) not in (1, client_count):
        raise ValueError(
            f"{name}: found {len(value)} values for {client_count} clients, accepted: one number,"
            f" or one for each client"
        )
