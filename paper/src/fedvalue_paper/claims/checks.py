"""Checks of claims: pure functions over the lines of an experiment that give a figure and, by a rule, a verdict.

Every check takes the lines and the claim's parameters. `where` selects lines, `by` names what tells settings apart;
everything else (games, partitions, training seeds) is averaged over. The rule of a check is its docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from fedvalue_paper.claims.results import Figure, Line, figure_of, short, where

__all__ = [
    "CHECKS",
    "CONDITIONS",
    "CONFIRMED",
    "NOT_CONFIRMED",
    "NOT_TESTABLE",
    "VERDICTS",
    "Outcome",
    "rule_of",
]

CONFIRMED, CONDITIONS, NOT_CONFIRMED = "confirmed", "confirmed with conditions", "not confirmed"
NOT_TESTABLE = "not testable here"
VERDICTS = (CONFIRMED, CONDITIONS, NOT_CONFIRMED, NOT_TESTABLE)

Given: TypeAlias = Mapping[str, Any]
Setting: TypeAlias = tuple[Any, ...]
_FACTOR = 2.0  # a printed size is met by a measured one up to this factor
_EQUAL_SPLIT = "equal split"
_ROUNDING = 1e-15  # what is left of 0 in floating point


@dataclass(frozen=True)
class Outcome:
    """A verdict and the figure behind it, in words."""

    verdict: str
    figure: str


def ratio(lines: Sequence[Line], given: Given) -> Outcome:
    """The column of `of` divided by that of `to`, by setting. Confirmed: above 1 and within a factor of 2 of
    what the paper prints, in every setting; with conditions: above 1 in at least one; not confirmed: in none."""
    found = {
        setting: (figures[given["of"]].mean / figures[given["to"]].mean, figures)
        for setting, figures in _settings(lines, given, [given["of"], given["to"]]).items()
        if len(figures) == 2 and figures[given["to"]].mean > 0
    }
    if not found:
        return _missing(lines, given, [given["of"], given["to"]])
    printed = given["printed"] if isinstance(given["printed"], list) else [given["printed"]]
    close = [min(printed) / _FACTOR <= q <= max(printed) * _FACTOR and q > 1 for q, _ in found.values()]
    above = [q > 1 for q, _ in found.values()]
    shown = [
        f"{_name(setting)}{short(q)}× ({figures[given['of']]} against {figures[given['to']]})"
        for setting, (q, figures) in found.items()
    ]
    return Outcome(_graded(close, above), "; ".join(shown))


def best(lines: Sequence[Line], given: Given) -> Outcome:
    """The column of every one of `methods` against every one of `rivals`. Confirmed: lower in every setting;
    with conditions: in at least half of them, or a rival was not run; not confirmed: in fewer. Settings in which all are
    level (two methods that know everything) do not count."""
    methods, rivals = given["methods"], given["rivals"]
    complete = {
        setting: figures
        for setting, figures in _settings(lines, given, [*methods, *rivals]).items()
        if all(name in figures for name in methods) and any(name in figures for name in rivals)
    }
    settings = {setting: figures for setting, figures in complete.items() if not _level(figures)}
    if not settings:
        return _missing(lines, given, [*methods, *rivals])
    won, lost = 0, []
    for setting, figures in settings.items():
        last = max(figures[name].mean for name in methods)
        lower = {name: figures[name] for name in rivals if name in figures and figures[name].mean <= last}
        won += not lower
        if lower:
            lost.append(f"{_name(setting)}{last:.3g}, " + ", ".join(f"{n} {f}" for n, f in lower.items()))
    absent = [name for name in rivals if not any(name in figures for figures in settings.values())]
    text = f"lower in {won} of {len(settings)} settings"
    text += f" ({len(complete) - len(settings)} level)" if len(complete) > len(settings) else ""
    text += f"; not in: {'; '.join(lost[:4])}{' …' if len(lost) > 4 else ''}" if lost else ""
    text += f"; not run: {', '.join(absent)}" if absent else ""
    return Outcome(_share(won, len(settings), absent), text + _against_equal_split(lines, given))


def place(lines: Sequence[Line], given: Given) -> Outcome:
    """The rank of `method` by the column, the lowest first. Confirmed: the stated place in every setting; with
    conditions: in at least half of them, or a rival was not run; not confirmed: in fewer."""
    names = [given["method"], *given["rivals"]]
    settings = {
        s: f for s, f in _settings(lines, given, names).items() if given["method"] in f and len(f) > 1
    }
    if not settings:
        return _missing(lines, given, names)
    places = {
        setting: 1 + sum(figures[name].mean < figures[given["method"]].mean for name in figures)
        for setting, figures in settings.items()
    }
    met = [found == given["place"] for found in places.values()]
    absent = [name for name in names if not any(name in figures for figures in settings.values())]
    text = "; ".join(f"{_name(setting)}place {found}" for setting, found in places.items())
    text += f"; not run: {', '.join(absent)}" if absent else ""
    return Outcome(_share(sum(met), len(met), absent), text)


def below(lines: Sequence[Line], given: Given) -> Outcome:
    """The column of `method` against the stated limit (where there are several games, less two standard errors of
    their mean). Confirmed: up to the limit in every setting; with conditions: in at least one; else not confirmed."""
    settings = _settings(lines, given, [given["method"]])
    if not settings:
        return _missing(lines, given, [given["method"]])
    found = {setting: figures[given["method"]] for setting, figures in settings.items()}
    met = [figure.mean - 2 * (figure.stderr or 0) <= given["limit"] for figure in found.values()]
    if len(found) > 6:
        least, most = min(f.mean for f in found.values()), max(f.mean for f in found.values())
        text = (
            f"up to {given['limit']:g} in {sum(met)} of {len(met)} settings: {short(least)} to {short(most)}"
        )
    else:
        text = "; ".join(f"{_name(setting)}{figure}" for setting, figure in found.items())
    return Outcome(_graded(met, met), text)


def close_to(lines: Sequence[Line], given: Given) -> Outcome:
    """The column of `method` against another column (`other`) or printed numbers (`printed`, by setting). Confirmed:
    within the stated factor in every setting; with conditions: in at least one; not confirmed: in none."""
    settings = _settings(lines, given, [given["method"]])
    wanted: dict[Setting, float] = {}
    if "other" in given:
        others = _settings(lines, {**given, "column": given["other"]}, [given["method"]])
        wanted = {setting: figures[given["method"]].mean for setting, figures in others.items()}
    else:
        wanted = {tuple(entry[:-1]): entry[-1] for entry in given["printed"]}
    found = {s: (settings[s][given["method"]], wanted[s]) for s in settings if wanted.get(s)}
    if not found:
        return _missing(lines, given, [given["method"]])
    factor = given.get("factor", _FACTOR)
    met = [want / factor <= figure.mean <= want * factor for figure, want in found.values()]
    text = "; ".join(f"{_name(s)}{figure} against {short(want)}" for s, (figure, want) in found.items())
    return Outcome(_graded(met, met), text)


def first_budget(lines: Sequence[Line], given: Given) -> Outcome:
    """The first γ from which the error of `method` stays below the limit (`stably`: with one deviation added).
    Confirmed: it is as stated (`at_most` or `more_than`) in every setting; with conditions: in at least one."""
    wanted = where(lines, {**given.get("where", {}), "label": given["method"]})
    groups: dict[Setting, dict[int, list[Line]]] = {}
    for line in wanted:
        if line.get("budget") is not None:
            setting = tuple(line.get(key) for key in given["by"])
            groups.setdefault(setting, {}).setdefault(line["budget"], []).append(line)
    if not groups:
        return _missing(lines, given, [given["method"]])
    found: dict[Setting, int | None] = {}
    for setting, by_budget in groups.items():
        found[setting] = None
        for budget in sorted(by_budget, reverse=True):
            if not _under(by_budget[budget], given):
                break
            found[setting] = budget
    largest = max(budget for by_budget in groups.values() for budget in by_budget)
    if "at_most" in given:
        met = [budget is not None and budget <= given["at_most"] for budget in found.values()]
    else:
        met = [budget is None or budget > given["more_than"] for budget in found.values()]
    text = "; ".join(
        f"{_name(setting)}{f'γ = {budget}' if budget else f'not up to γ = {largest}'}"
        for setting, budget in found.items()
    )
    return Outcome(_graded(met, met), text)


def _under(lines: Sequence[Line], given: Given) -> bool:
    mean, deviation = figure_of(lines, given["column"]), figure_of(lines, given["column"] + "_sd")
    extra = deviation.mean if deviation and given.get("stably") else 0.0
    return mean is not None and mean.mean + extra < given["limit"]


def growth(lines: Sequence[Line], given: Given) -> Outcome:
    """The column of `method` at n = `to` divided by that at n = `start`. Confirmed: within the stated limits;
    with conditions: beyond them by no more than a factor of 2; else not confirmed. Results without the column `needs`, where
    one is named, are not judged."""
    needed = given.get("needs", given["column"])
    if not any(line.get(needed) is not None for line in lines):
        return _missing(lines, {**given, "column": needed}, [given["method"]])
    figures = [
        figure_of(where(lines, {**given.get("where", {}), "label": given["method"], "n": n}), given["column"])
        for n in (given["start"], given["to"])
    ]
    if figures[0] is None or figures[1] is None or figures[0].mean <= 0:
        return _missing(lines, given, [given["method"]])
    q, low, high = figures[1].mean / figures[0].mean, given.get("low", 0.0), given.get("high", float("inf"))
    near = low / _FACTOR <= q <= high * _FACTOR
    text = f"{short(q)}× ({figures[0]} with {given['start']}, {figures[1]} with {given['to']})"
    return Outcome(_graded([low <= q <= high], [near]), text)


def rises_then_falls(lines: Sequence[Line], given: Given) -> Outcome:
    """The column of each of `methods` over γ. Confirmed: its largest value is neither at the first nor at the last γ, in
    every setting with three or more γ; with conditions: in at least one; not confirmed: in none."""
    curves = _curves(lines, given, "budget")
    met = [0 < numbers.index(max(numbers)) < len(numbers) - 1 for numbers in curves.values()]
    if not met:
        return _missing(lines, given, given["methods"])
    falls = sum(numbers[-1] < max(numbers) for numbers in curves.values())
    text = f"rises and falls in {sum(met)} of {len(met)} curves; falls at the end in {falls}"
    return Outcome(_graded(met, met), text)


def fast_then_slow(lines: Sequence[Line], given: Given) -> Outcome:
    """The error of K-Greedy over K. Confirmed: it never rises, and by K = 3 more than half of what K = 1 leaves is
    gone, in every setting; with conditions: in at least one; not confirmed: in none."""
    curves = _curves(lines, given, "k")
    if not curves:
        return _missing(lines, given, given["methods"])
    met = [all(b <= a for a, b in pairwise(c)) and c[2] < c[0] / 2 for c in curves.values()]
    text = "; ".join(f"{_name(s[:-1])}{' → '.join(map(short, c[:5]))}" for s, c in curves.items())
    return Outcome(_graded(met, met), text)


def undominated(lines: Sequence[Line], given: Given) -> Outcome:
    """`method` against every point of `rivals` that is both quicker and more accurate. Confirmed: there is none for any
    of its points; with conditions: for at most half of them, or a rival was not run; else not confirmed."""
    points: dict[Setting, dict[str, list[tuple[float, float]]]] = {}
    keys = [*given["by"], "budget"]
    for key, figures in _pairs(lines, given, keys).items():
        for name, point in figures.items():
            points.setdefault(key[:-1], {}).setdefault(name, []).append(point)
    free, count, beaten = 0, 0, []
    for setting, by_name in points.items():
        for time, error in by_name.get(given["method"], []):
            above = sorted(
                {n for n in given["rivals"] for t, e in by_name.get(n, []) if t < time and e < error}
            )
            count, free = count + 1, free + (not above)
            if above:
                beaten.append(f"{_name(setting)}{short(error)} in {short(time)} s by {', '.join(above)}")
    if not count:
        return _missing(lines, given, [given["method"]])
    absent = [n for n in given["rivals"] if not any(n in by_name for by_name in points.values())]
    text = f"{free} of {count} points undominated"
    text += f"; beaten: {'; '.join(beaten[:4])}{' …' if len(beaten) > 4 else ''}" if beaten else ""
    text += f"; not run: {', '.join(absent)}" if absent else ""
    return Outcome(_share(free, count, absent), text)


Check: TypeAlias = Callable[[Sequence[Line], Given], Outcome]
CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        ratio, best, place, below, close_to, first_budget, growth, rises_then_falls, fast_then_slow, undominated,
    )
}  # fmt: skip


def rule_of(name: str) -> str:
    """The rule of a check, in words."""
    return " ".join((CHECKS[name].__doc__ or "").split())


def _graded(full: Sequence[bool], partly: Sequence[bool]) -> str:
    return CONFIRMED if all(full) else CONDITIONS if any(partly) else NOT_CONFIRMED


def _share(won: int, count: int, absent: Sequence[str]) -> str:
    if won == count and not absent:
        return CONFIRMED
    return CONDITIONS if 2 * won >= count else NOT_CONFIRMED


def _settings(lines: Sequence[Line], given: Given, labels: Sequence[str]) -> dict[Setting, dict[str, Figure]]:
    """For each setting the figure of every method that has one."""
    groups: dict[Setting, dict[str, list[Line]]] = {}
    for line in where(lines, {**given.get("where", {}), "label": list(labels)}):
        setting = tuple(line.get(key) for key in given["by"])
        groups.setdefault(setting, {}).setdefault(line["label"], []).append(line)
    figures = {
        setting: {label: figure_of(group, given["column"]) for label, group in by_label.items()}
        for setting, by_label in groups.items()
    }
    kept = {s: {label: f for label, f in by.items() if f is not None} for s, by in figures.items()}
    return {setting: by_label for setting, by_label in kept.items() if by_label}


def _curves(lines: Sequence[Line], given: Given, over: str) -> dict[Setting, list[float]]:
    """The column against γ or K, by setting and method; curves of at least three points."""
    keys = [*given["by"], over]
    found: dict[Setting, dict[Any, float]] = {}
    for key, figures in _settings(lines, {**given, "by": keys}, given["methods"]).items():
        for label, figure in figures.items():
            if key[-1] is not None:
                found.setdefault((*key[:-1], label), {})[key[-1]] = figure.mean
    return {s: [by_x[x] for x in sorted(by_x)] for s, by_x in found.items() if len(by_x) > 2}


def _pairs(
    lines: Sequence[Line], given: Given, by: Sequence[str]
) -> dict[Setting, dict[str, tuple[float, float]]]:
    names = [given["method"], *given["rivals"]]
    times = _settings(lines, {**given, "by": by, "column": given["time"]}, names)
    errors = _settings(lines, {**given, "by": by, "column": given["column"]}, names)
    return {
        setting: {
            n: (times[setting][n].mean, errors[setting][n].mean) for n in figures if n in errors[setting]
        }
        for setting, figures in times.items()
        if setting in errors
    }


def _level(figures: Mapping[str, Figure]) -> bool:
    numbers = [figure.mean for figure in figures.values()]
    return max(numbers) - min(numbers) <= _ROUNDING


def _against_equal_split(lines: Sequence[Line], given: Given) -> str:
    """How the equal split, which the paper does not show, compares with the first method; it is not in the verdict."""
    if given["column"] != "error":
        return ""
    method = given["methods"][0]
    settings = _settings(lines, given, [method, _EQUAL_SPLIT]).values()
    both = [f for f in settings if method in f and _EQUAL_SPLIT in f]
    lower = sum(f[_EQUAL_SPLIT].mean < f[method].mean for f in both)
    return f"; beside the claim: the equal split errs less in {lower} of {len(both)}" if both else ""


def _missing(lines: Sequence[Line], given: Given, labels: Sequence[str]) -> Outcome:
    present = {line.get("label") for line in where(lines, given.get("where", {}))}
    absent = [label for label in labels if label not in present]
    what = (
        f"no rows of {', '.join(absent)}" if absent else f"no column {given.get('column')} for these settings"
    )
    return Outcome(NOT_TESTABLE, f"the results have {what}")


def _name(setting: Setting) -> str:
    words = ", ".join(
        str(value) if isinstance(value, str) else f"{value:g}" for value in setting if value is not None
    )
    return f"{words}: " if words else ""
