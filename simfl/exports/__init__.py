"""Other tools' formats: what a run says, as they read it."""


class MissingTool(RuntimeError):
    """The tool that an export is for is not installed."""
