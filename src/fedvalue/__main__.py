"""`python -m fedvalue` is the command `fedvalue`, where its script is not on the path."""

from fedvalue.cli import main

if __name__ == "__main__":
    main()
