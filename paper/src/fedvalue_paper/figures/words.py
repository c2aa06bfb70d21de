"""Words for what rows hold: partitions, models, numbers that name a panel, and the quantities on axes.

Whatever a figure says besides the names of methods (those are in `style`) stands here once. A column or a name that
is not here is shown as it is, so that an experiment of one's own needs no entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from numbers import Real

__all__ = ["MODELS", "PARTITIONS", "Quantity", "in_words", "number_text", "quantity", "shorten"]

PARTITIONS = {
    "same": "Same size, same distribution",
    "distribution": "Same size, different distribution",
    "size": "Different size, same distribution",
    "label-noise": "Noisy labels",
    "feature-noise": "Noisy features",
    "dirichlet": "Dirichlet",
    "label-flip": "Flipped labels",
    "free-riders": "Free riders and copies",
    "demo": "One free rider, one copy, one label-flipper",
    "writer": "By writer",
    "occupation": "By occupation",
    "user": "By user",
}
MODELS = {
    "mlp": "MLP",
    "mlp-dropout": "MLP with dropout",
    "cnn": "CNN",
    "linear": "Linear",
    "text-mean": "Embedding mean",
    "lstm": "LSTM",
    "least-squares": "Least squares",
    "xgboost": "XGBoost",
}
# A number as the name of a panel or a series.
_NUMBERS = {
    "n": "{} clients",
    "samples": "{} samples per client",
    "budget": "{} coalitions",
    "noise_sd": "Noise {}",
    "k": "K = {}",
}


@dataclass(frozen=True)
class Quantity:
    """What an axis shows. No value lies outside `low` and `high`, so no error bar may; `level` is worth a line."""

    label: str
    low: float = -inf
    high: float = inf
    level: float | None = None


_QUANTITIES = {
    "n": Quantity("Clients"),
    "samples": Quantity("Samples per client"),
    "budget": Quantity("γ, coalitions evaluated"),
    "k": Quantity("K, largest coalition trained"),
    "partition": Quantity("Partition"),
    "model": Quantity("Model"),
    "paper_seconds": Quantity("Time (s), trained one by one", 0),
    "wall_seconds": Quantity("Time (s) of this engine", 0),
    "error": Quantity("Relative error", 0),
    "error_by_estimate": Quantity("Error relative to the estimate", 0),
    "mean_error": Quantity("Relative error of the mean value", 0),
    "skill": Quantity("Skill (0: equal split, 1: exact)", high=1, level=0),
    "kendall": Quantity("Kendall's τ", -1, 1),
    "free_rider_error": Quantity("Error for free riders", 0),
    "free_rider_relative": Quantity("Relative error for free riders", 0),
    "symmetry_error": Quantity("Error for copies", 0),
    "symmetry_relative": Quantity("Relative error for copies", 0),
    "symmetry_by_originals": Quantity("Error for copies, by originals", 0),
    "variance": Quantity("Variance of a value", 0),
    "error_variance": Quantity("Variance of the relative error", 0),
    "bound_ratio": Quantity("Error / bound", 0, level=1),
}
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def quantity(column: str) -> Quantity:
    """What stands at an axis that shows the column.

    >>> quantity("error").label, quantity("my_own").label
    ('Relative error', 'my own')
    """
    return _QUANTITIES.get(column, Quantity(column.replace("_", " ")))


def in_words(column: str, value: object) -> str:
    """A value of a column, as it names a panel, a series or a place on an axis.

    >>> in_words("model", "mlp"), in_words("n", 3), in_words("partition", "writer+free-riders")
    ('MLP', '3 clients', 'By writer, free riders and copies')
    >>> in_words("label", "IPSS"), in_words("alpha", 0.5)
    ('IPSS', 'alpha = 0.5')
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        name = column.replace("_", " ")
        return _NUMBERS.get(column, f"{name} = {{}}").format(number_text(float(value)))
    text = str(value)
    if column == "model":
        return MODELS.get(text, text)
    if column == "partition":
        first, *others = (PARTITIONS.get(part, part) for part in text.split("+"))
        return ", ".join([first, *(other[:1].lower() + other[1:] for other in others)])
    return text


def number_text(value: float, plain: float = 1e-3) -> str:
    """A number as short as it can be, without markup; below `plain` with a power of ten.

    >>> number_text(0.25), number_text(-20), number_text(1e-5), number_text(3e7), number_text(12000)
    ('0.25', '−20', '10⁻⁵', '3·10⁷', '12 000')
    """
    if value == 0 or plain <= abs(value) < 1e5:
        text = f"{value:.6g}"
        text = f"{value:,.0f}".replace(",", " ") if abs(value) >= 1e4 else text
        return text.replace("-", "−")
    mantissa, power = f"{value:.3e}".split("e")
    digits = f"{float(mantissa):g}".replace("-", "−")
    tens = "10" + str(int(power)).translate(_SUPERSCRIPT)
    return tens if digits == "1" else f"−{tens}" if digits == "−1" else f"{digits}·{tens}"


def shorten(text: str, most: int) -> str:
    """One line of at most so many letters.

    >>> shorten("a very long name", 8), shorten("two\\nlines", 20)
    ('a very …', 'two lines')
    """
    text = " ".join(text.split())
    return text if len(text) <= most else text[: max(most - 1, 1)] + "…"
