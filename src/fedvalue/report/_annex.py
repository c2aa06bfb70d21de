"""What a contract has to fix: the rules that were run, the words of this report, and who signs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedvalue._text import one_line, plural, shortened
from fedvalue.payout import Payout
from fedvalue.report._origin import part_of
from fedvalue.report._trained import Absent
from fedvalue.report._words import NAME
from fedvalue.store import History
from fedvalue.values import Values

__all__ = ["TERMS", "rules_of"]

_NOT = "not recorded"
TERMS = (
    ("client", "a party that brings data and gets a value"),
    ("coalition", "a set of clients, and the common model that is trained on their data alone"),
    ("value", "the Shapley value: what a client adds to the metric, averaged over all orders in which clients could join"),
    ("exact", "computed from all coalitions: by marginal contributions (MC-SV) or equal formulas"),
    ("estimated", "computed from some coalitions; the annex names the method, its guarantee and its reference"),
    ("95% interval", "holds the value in 19 of 20 such valuations; what it covers stands below the table of clients"),
    ("adjusted for all tests", "the audit makes many tests; with Holm’s method (1979) their number makes no false alarms"),
    ("seed", "the number from which all random choices of a training follow"),
)  # fmt: skip
"""Words of the report that a contract may have to define, with the technical term."""


def rules_of(
    values: Values, record: Mapping[str, Any] | None, trainings: History | Absent, paid: Payout | Absent
) -> tuple[tuple[str, str], ...]:
    """What the values rest on, as labels and texts."""
    known = record or {}
    scenario, training = part_of(known, "scenario"), part_of(known, "training")
    test, learner = part_of(scenario, "test"), part_of(known, "learner")
    rules = ", ".join(f"{name} {rule}" for name, rule in training.items() if rule not in (0.0, None))
    model = " ".join(str(x) for x in (known.get("model") or learner.get("model"), *_options(learner)) if x)
    better = "higher" if values.higher_is_better else "lower"
    rows = values.test_rows or test.get("rows")
    told = {
        "Data": ", ".join(_data(scenario)),
        "Model": model,
        "Rules of training": rules,
        "Metric": f"{shortened(values.metric, NAME)}, {better} is better",
        "Test set": ", ".join(
            [
                *([plural(rows, "row")] if isinstance(rows, int) else []),
                *([f"fingerprint {test['fingerprint']}"] if test.get("fingerprint") else []),
            ]
        ),
        "Values are counted from": values.empty_label if values.utility_of_none is not None else "",
        "Where it was trained": str(known.get("backend") or ""),
        "In the store": "" if isinstance(trainings, Absent) else trainings.made,
        "Payout": "nobody is paid"
        if isinstance(paid, Absent)
        else f"rule {paid.rule}, in steps of {paid.step}{', copies share one part' if paid.copies_rule == 'share' else ''}",
    }
    return tuple((label, one_line(text) or _NOT) for label, text in told.items())


def _data(scenario: Mapping[str, Any]) -> list[str]:
    """The name of the data, and how it was divided where it was; files are divided as they are."""
    name, partition = (str(scenario.get(key) or "") for key in ("name", "partition"))
    divided = [f"partition {partition}"] if partition and partition != "file" else []
    return [name or "files", *divided] if name or divided else []


def _options(learner: Mapping[str, Any]) -> list[str]:
    return [f"{name} {option}" for name, option in learner.items() if name != "model"]
