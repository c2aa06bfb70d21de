"""Six hospitals train one model together. Who contributed what?

The utility of a coalition follows a learning curve over the records of its members: steep at first, then
saturating. One hospital has no records; two have the same ones.
"""

from rich.console import Console

import fedvalue as fv

RECORDS = {"Aachen": 900, "Bern": 700, "Como": 400, "Delft": 250, "Delft-copy": 250, "Empty": 0}
HOSPITALS = list(RECORDS)


def accuracy(coalitions: list[tuple[int, ...]]) -> list[float]:
    """Accuracy of the model that each coalition of hospitals would train."""
    scores = []
    for coalition in coalitions:
        names = {HOSPITALS[i].removesuffix("-copy") for i in coalition}
        records = sum(RECORDS[name] for name in names)
        scores.append(0.5 + 0.45 * records / (records + 300))
    return scores


def main() -> fv.Values:
    game = fv.FunctionGame(len(HOSPITALS), accuracy, names=HOSPITALS)
    results = fv.compare(game, methods=["exact", "ipss", "ipss-balanced", "equal"], budget=16)
    console = Console()
    console.print(results["exact"].table())
    console.print("\nThe same with 16 of the 64 coalitions (relative error against exact):")
    for name in ("ipss", "ipss-balanced", "equal"):
        error = fv.scoring.relative_l2(results[name], results["exact"])
        console.print(f"  {name:14s} {error:6.1%}   from {results[name].evaluations} coalitions")
    return results["exact"]


if __name__ == "__main__":
    main()
