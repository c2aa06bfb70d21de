"""Ways from data in memory to a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Self

from fedvalue._checks import checked_call

__all__ = ["FromData"]


class FromData:
    """What `Scenario` offers beside giving it everything in its final form."""

    @classmethod
    @checked_call
    def from_arrays(
        cls,
        clients: Any,
        *,
        test: Any,
        names: Sequence[str] | None = None,
        task: str | None = None,
        classes: int | Sequence[str] | None = None,
        vocabulary: int = 0,
        test_parts: Mapping[str, Any] | None = None,
        name: str = "arrays",
    ) -> Self:
        """Of arrays: `clients` is a list of (x, y), or a dict of them by name; `test` another pair, or "by-client".

        Features are taken as they are. Labels may be numbers or texts: whether they are classes or targets is decided by the
        rules of a folder (docs/own-data.md), or by `task`; `classes` says how many classes there are, or their names.

        >>> import fedvalue as fv
        >>> s = fv.Scenario.from_arrays({"a": ([[0.0], [1.0]], ["no", "yes"]), "b": ([[0.1]], ["no"])}, test=([[0.9]], ["yes"]))
        >>> s.names, s.classes, s.details["class_names"]
        (('a', 'b'), 2, ['no', 'yes'])
        """
        scenario: Self = _given("from_arrays")(
            clients,
            test=test,
            names=names,
            task=task,
            classes=classes,
            vocabulary=vocabulary,
            test_parts=test_parts,
            name=name,
        )
        return scenario

    @classmethod
    @checked_call
    def from_frames(
        cls,
        frames: Any,
        *,
        label: str,
        test: Any,
        client: str | None = None,
        name: str = "frames",
        **options: Any,
    ) -> Self:
        """Of data frames: one with a column that names the `client` of each row, or a dict of frames by client.

        `test` is a frame, a dict of frames (each a part measured by itself), or "by-client". Categories, dates and missing
        cells are handled as in a folder of files, with the same options (docs/own-data.md). Needs pandas; frames of other
        kinds are converted by their `to_pandas`.

        >>> import fedvalue as fv, pandas as pd
        >>> rows = pd.DataFrame({"clinic": ["a", "a", "b", "b"], "age": [40, 60, 50, 70], "ill": ["no", "yes", "no", "yes"]})
        >>> s = fv.Scenario.from_frames(rows, client="clinic", label="ill", test=rows)
        >>> s.names, s.classes, s.report.features
        (('a', 'b'), 2, 1)
        """
        scenario: Self = _given("from_frames")(
            frames, label=label, test=test, client=client, name=name, **options
        )
        return scenario

    @classmethod
    @checked_call
    def from_datasets(
        cls,
        clients: Any,
        *,
        test: Any,
        label: str | None = None,
        features: str | Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """Of torch's map-style data sets, or Hugging Face's: a list with one per client, or a dict by name.

        Rows are (features, label), or dicts of columns; then `label` is the column to predict ("label" or "labels" if there
        is one), and `features` are those that the model gets: by default all others. Several columns that are more than
        single numbers (token ids and masks) reach the model as keywords. Further options are those of `from_arrays`.

        >>> import fedvalue as fv
        >>> rows = [([0.0, 1.0], 0), ([1.0, 0.0], 1)]
        >>> fv.Scenario.from_datasets([rows, rows], test=rows).n
        2
        """
        scenario: Self = _given("from_datasets")(
            clients, test=test, label=label, features=features, **options
        )
        return scenario


def _given(how: str) -> Callable[..., Any]:
    """These ways build on the scenario itself: they are looked up when they are used."""
    way: Callable[..., Any] = getattr(import_module("fedvalue.scenarios._given"), how)
    return way
