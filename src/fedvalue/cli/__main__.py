"""`python -m fedvalue.cli` is the same as `fedvalue`."""

from fedvalue.cli import main

if __name__ == "__main__":
    main()
