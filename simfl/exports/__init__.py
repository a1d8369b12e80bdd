"""Exports of runs to other tools' formats."""


class MissingTool(RuntimeError):
    """The tool that an export needs is not installed."""


class ExportFailed(RuntimeError):
    """The tool refuses the data or does not answer; the message says which tool and why."""


def curve_name(column: str, accuracy_name: str) -> str:
    """The name of a curve: "r2" for R^2, since MLflow accepts no circumflex."""
    return "r2" if column == "accuracy" and accuracy_name == "R^2" else column
