"""The name of accuracy: "accuracy", or "R^2" for regressions."""

from __future__ import annotations


def accuracy_name(task: str | None) -> str:
    """The name "accuracy" (the share of right answers), or "R^2" for regressions."""
    return "R^2" if task == "regression" else "accuracy"
