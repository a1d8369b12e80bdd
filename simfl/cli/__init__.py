"""The command line; its commands are created when it is called."""


def main() -> None:
    """Run the command line."""
    from simfl.cli.app import main as run_commands

    run_commands()
