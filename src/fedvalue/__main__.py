"""The program `fedvalue`, also as `python -m fedvalue` where its script is not on the path.

It imports next to nothing, so that Ctrl-C is answered also while the command line is still being imported.
"""

from fedvalue._interrupt import end_at_once


def main() -> None:
    """Runs the command line."""
    end_at_once()
    from fedvalue.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
