"""Exports of runs to other tools' formats."""


class MissingTool(RuntimeError):
    """The tool that an export is for is not installed."""


class ExportFailed(RuntimeError):
    """The tool refuses what it is sent, or does not answer; the message says which and why."""


def curve_name(column: str, accuracy_name: str) -> str:
    """What a curve is called: "r2" where the accuracy is R^2, as MLflow takes no circumflex."""
    return "r2" if column == "accuracy" and accuracy_name == "R^2" else column
