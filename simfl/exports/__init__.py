"""Other tools' formats: what a run says, as they read it."""


class MissingTool(RuntimeError):
    """The tool that an export is for is not installed."""


class ExportFailed(RuntimeError):
    """The tool refuses what it is sent, or does not answer; the message says which and why."""
