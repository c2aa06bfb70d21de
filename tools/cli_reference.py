"""The command-line reference, `docs/cli.md`, from the commands themselves.

    python tools/cli_reference.py docs/cli.md        # or: make docs

Without a file the page is printed. It depends on the code alone, not on the terminal or on installed extras. What
code cannot say is below: an example for each command. The tests run them in the order of the page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import typer

from fedvalue.cli import app

HEAD = """\
# The command line

Generated from the code by `make docs`; `fedvalue COMMAND --help` shows the same. The examples belong together: started in
an empty folder, they work in the order of this page.

| exit code | means |
| --- | --- |
| 0 | done |
| 1 | something failed while running; if there is a store, what was finished is kept |
| 2 | wrong usage or input; nothing was run |
| 130 | interrupted |

Results go to stdout, everything else to stderr. In a pipe, output is plain, one line per row. `fedvalue --version` prints
the version; `fedvalue --install-completion` sets up tab completion of commands, methods and scenarios.
"""

# By command; those that need another program or the network are not run.
EXAMPLES = {
    "fedvalue plan": "fedvalue plan --clients 10 --minutes 30 --cost 20",
    "fedvalue run": """\
fedvalue run --clients 5 --exact --out demo
fedvalue store export demo/store.db federation --out game.npz""",
    "fedvalue methods": "fedvalue methods --json",
    "fedvalue value": "fedvalue value --table game.npz --method permutation --budget 28",
    "fedvalue compare": "fedvalue compare --table game.npz --methods surrogate,ipss,cc-paired --budget 16 --seeds 3",
    "fedvalue payout": "fedvalue payout demo --pot 100000 --currency EUR --rule floor --md payout.md",
    "fedvalue audit": "fedvalue audit demo --md audit.md",
    "fedvalue indices": """\
fedvalue indices demo
fedvalue indices demo --index banzhaf --index "weighted(client-0=2)" --json indices.json""",
    "fedvalue benefits": """\
fedvalue run --clients 4 --test by-client --exact --out own-rows
fedvalue benefits own-rows --json benefits.json""",
    "fedvalue report": "fedvalue report demo --pot 100000 --currency EUR",
    "fedvalue agreement key": """\
fedvalue agreement key clearing
fedvalue agreement key aachen""",
    "fedvalue agreement new": """\
fedvalue agreement new agreement.json --operator "Clearing=clearing.pub" --member client-0=aachen.pub -- --clients 5 --exact""",
    "fedvalue agreement sign": """\
fedvalue agreement sign agreement.json --key clearing
fedvalue agreement sign agreement.json --key aachen""",
    "fedvalue agreement show": "fedvalue agreement show agreement.json",
    "fedvalue agreement check": "fedvalue agreement check agreement.json",
    "fedvalue watch": "fedvalue watch demo --port 8765",
    "fedvalue verify": "fedvalue verify demo --out verdict.html",
    "fedvalue sign": """\
fedvalue agreement key operator
fedvalue sign demo --key operator""",
    "fedvalue data check": "fedvalue data check hospitals --label outcome",
    "fedvalue data ls": "fedvalue data ls",
    "fedvalue data sketch": "fedvalue data sketch mine --label outcome --secret secret.txt --out sketches",
    "fedvalue data overlap": "fedvalue data overlap sketches/aachen.sketch.npz sketches/bern.sketch.npz",
    "fedvalue data show": "fedvalue data show digits --clients 6 --partition size+label-flip",
    "fedvalue data fetch": """\
fedvalue data fetch mnist
fedvalue data fetch femnist""",
    "fedvalue store ls": "fedvalue store ls demo/store.db",
    "fedvalue store show": "fedvalue store show demo/store.db federation",
    "fedvalue store export": "fedvalue store export demo/store.db federation --out trainings.csv",
    "fedvalue store rename": "fedvalue store rename demo/store.db federation Aachen Bern Como",
    "fedvalue store verify": "fedvalue store verify demo/store.db",
    "fedvalue store merge": "fedvalue store merge all.db demo/store.db",
    "fedvalue flower init": "fedvalue flower init valuation --clients 4",
    "fedvalue flower demo": "fedvalue flower demo --clients 4",
    "fedvalue flower deploy": 'fedvalue flower deploy consortium --host link.example.org --clients "Hospital A,Hospital B"',
    "fedvalue flower register": 'fedvalue flower register consortium "Hospital A" node.key.pub',
    "fedvalue flower join": 'fedvalue flower join consortium "Hospital C"',
    "fedvalue flower leave": 'fedvalue flower leave consortium "Hospital A"',
    "fedvalue flower run": "fedvalue flower run consortium --set method=ipss --set budget=32",
    "fedvalue period close": """\
fedvalue period close clinics 2026-Q1 --pot 1000 --currency EUR --clients 4 --exact --no-noise
fedvalue period close clinics 2026-Q2 --pot 1000 --currency EUR --clients 4 --exact --no-noise""",
    "fedvalue period show": "fedvalue period show clinics --csv quarters.csv",
    "fedvalue period verify": "fedvalue period verify clinics",
}
NOT_RUN = {
    "fedvalue watch": "serves a page until Ctrl-C",
    "fedvalue data check": "needs a folder of your own",
    "fedvalue data sketch": "needs a folder of your own",
    "fedvalue data overlap": "needs the sketches of your clients",
    "fedvalue store rename": "the store of the demo has other clients",
    "fedvalue data fetch": "needs the network",
    "fedvalue flower demo": "starts servers, which takes a minute",
    "fedvalue flower register": "needs the SuperLink of the deployment",
    "fedvalue flower run": "needs the SuperLink of the deployment",
}
KINDS = {"integer": "INTEGER", "float": "NUMBER", "path": "PATH", "text": "TEXT", "boolean": ""}
DEFAULT = re.compile(r"\s*\[default: (.*)\]\s*$", re.DOTALL)


def page() -> str:
    """The whole reference."""
    found = list(commands(typer.main.get_command(app)))
    contents = "\n".join(f"- [`{name}`](#{name.replace(' ', '-')}): {_summary(c)}" for name, c in found)
    return "\n".join([HEAD, contents, "", *(_section(name, command) for name, command in found)])


def commands(command: Any, name: str = "fedvalue") -> Iterator[tuple[str, Any]]:
    """All commands that can be run, with their full names."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for inner, each in command.commands.items():
        yield from commands(each, f"{name} {inner}")


def _summary(command: Any) -> str:
    return cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ")


def _section(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join([name, *map(_placeholder, arguments), "[OPTIONS]" if options else ""]).strip()
    lines = [f"## {name}", "", cleandoc(command.help or ""), "", f"Usage: `{usage}`", ""]
    if arguments:
        lines += ["| argument | is |", "| --- | --- |"]
        lines += [f"| `{_placeholder(p)}` | {_cell(_words(p)[0])} |" for p in arguments]
        lines += [""]
    if options:
        lines += ["| option | is | default |", "| --- | --- | --- |"]
        lines += [f"| {_option(p)} | {_cell(_words(p)[0])} | {_cell(_words(p)[1])} |" for p in options]
        lines += [""]
    if name in EXAMPLES:
        lines += [f"<!-- not run: {NOT_RUN[name]} -->"] if name in NOT_RUN else []
        lines += ["```sh", EXAMPLES[name], "```", ""]
    return "\n".join(lines)


def _placeholder(argument: Any) -> str:
    shown = argument.metavar or argument.name.upper()
    return shown if argument.required else f"[{shown}]"


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    kind = "" if option.is_flag else option.metavar or KINDS.get(option.type.name.split()[0], "")
    return f"{names} {kind}".strip()


def _words(parameter: Any) -> tuple[str, str]:
    """Help and default: the help says itself what is used where nothing is given, if that is no plain value."""
    text = cleandoc(parameter.help or "")
    said = DEFAULT.search(text)
    if said:
        return text[: said.start()], said[1]
    if parameter.required:
        return text, "required"
    if parameter.default in (None, "", ()) or getattr(parameter, "is_flag", False):
        return text, "–"
    return text, f"`{parameter.default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    if len(sys.argv) > 2:
        sys.stderr.write("Usage: python tools/cli_reference.py [FILE]\n")
        return 2
    if len(sys.argv) == 2:
        Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
