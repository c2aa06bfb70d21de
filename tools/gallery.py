"""Runs the examples and draws what they return: a picture for light and for dark pages, and what was printed.

    python tools/gallery.py build/gallery              # all whose outputs are missing or older than example and package
    python tools/gallery.py build/gallery quickstart   # one, in this process

Examples return `Values`, or a list of payouts; each runs in a process of its own, two at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LONGEST_SECONDS = 300
LOOKS = {"light": "#24292f", "dark": "#d5d9e2"}  # the colour of text and axes


@dataclass(frozen=True)
class Example:
    """A script of the folder `examples`, its headline in the gallery, and the arguments it is run with there."""

    name: str
    title: str
    arguments: tuple[str, ...] = ()


EXAMPLES = (
    Example("quickstart", "Six hospitals and a learning curve"),
    Example("own_csv_torch", "Your own CSV files and torch module"),
    Example("own_function", "Your own function"),
    Example("regression_r2", "A regression, by R²"),
    Example("xgboost_trees", "Boosted trees with XGBoost"),
    Example("lora_federation", "LoRA adapters of a language model", ("--texts", "60", "--budget", "20")),
    Example("flower_demo", "A Flower federation"),
    Example("ray_workers", "Workers on Ray"),
    Example("payout_rules", "A payout, by three rules"),
)
MADE = ("{}.txt", "{}-light.svg", "{}-dark.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", nargs="?", choices=[example.name for example in EXAMPLES])
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.name:
        make(next(example for example in EXAMPLES if example.name == given.name), given.folder)
        return
    stale = [example for example in EXAMPLES if is_stale(example, given.folder)]
    with ThreadPoolExecutor(2) as pool:
        for text in pool.map(lambda example: made_apart(example, given.folder), stale):
            print(text, flush=True)


def is_stale(example: Example, folder: Path) -> bool:
    made = [folder / name.format(example.name) for name in MADE]
    if not all(path.exists() for path in made):
        return True
    sources = [ROOT / "examples" / f"{example.name}.py", Path(__file__), *(ROOT / "src").rglob("*.py")]
    return min(path.stat().st_mtime for path in made) < max(path.stat().st_mtime for path in sources)


def made_apart(example: Example, folder: Path) -> str:
    """In a process of its own; an example that fails ends the build with what it said."""
    done = subprocess.run(
        [sys.executable, "-W", "error", __file__, str(folder), example.name],
        env={**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "COLUMNS": "90"},
        capture_output=True,
        encoding="utf-8",
        timeout=LONGEST_SECONDS,
    )
    if done.returncode:
        raise SystemExit(f"examples/{example.name}.py failed:\n{done.stdout}{done.stderr}")
    return f"examples/{example.name}.py"


def make(example: Example, folder: Path) -> None:
    script = ROOT / "examples" / f"{example.name}.py"
    sys.argv = [str(script), *example.arguments]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        found = runpy.run_path(str(script))["main"]()
    for look, colour in LOOKS.items():
        draw(found, colour, folder / f"{example.name}-{look}.svg")
    (folder / f"{example.name}.txt").write_text(printed.getvalue(), encoding="utf-8")


def draw(found: Any, colour: str, path: Path) -> None:
    import matplotlib as mpl

    text = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    with mpl.rc_context(
        {**dict.fromkeys(text, colour), "axes.spines.top": False, "axes.spines.right": False}
    ):
        mpl.rcParams["svg.hashsalt"] = "fedvalue"  # the same picture from the same numbers
        from matplotlib import pyplot

        clients = len(found[0].lines) if isinstance(found, list) else found.n
        figure, ax = pyplot.subplots(figsize=(7, 1.2 + 0.36 * clients), layout="constrained")
        draw_payouts(found, ax) if isinstance(found, list) else found.plot(ax)
        figure.savefig(path, transparent=True, metadata={"Date": None})
        pyplot.close(figure)


def draw_payouts(payouts: Sequence[Any], ax: Any) -> None:
    """A group of bars per client, a bar for each rule."""
    names, height = [line.name for line in payouts[0].lines], 0.8 / len(payouts)
    for i, payout in enumerate(payouts):
        places = [place + (i - (len(payouts) - 1) / 2) * height for place in range(len(names))]
        ax.barh(places, [float(line.amount) for line in payout.lines], height, label=payout.rule)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel(f"payout in {payouts[0].currency}")
    ax.legend(title="rule", frameon=False)


if __name__ == "__main__":
    main()
