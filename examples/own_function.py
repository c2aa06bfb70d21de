"""A utility function of your own: how much is each of your data sources worth to a scikit-learn pipeline?

Six clinics have records of tumours. One copied another's records, and in one every third diagnosis is wrong. The
function trains a model on the records of some clinics and returns its quality. Two processes evaluate all 64
coalitions. A coalition that takes longer than a minute is abandoned, and one that fails is tried once more. The store
keeps every result: give it a path of your own, and a second run trains nothing.
"""

import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedvalue as fv

X, Y = load_breast_cancer(return_X_y=True)
TRAIN_X, TEST_X, TRAIN_Y, TEST_Y = train_test_split(X, Y, test_size=0.5, random_state=0, stratify=Y)
SOURCES = {
    "Aachen": (TRAIN_X[:90], TRAIN_Y[:90]),
    "Bern": (TRAIN_X[90:130], TRAIN_Y[90:130]),
    "Como": (TRAIN_X[130:150], TRAIN_Y[130:150]),
    "Delft": (TRAIN_X[150:160], TRAIN_Y[150:160]),
    "copy of Como": (TRAIN_X[130:150], TRAIN_Y[130:150]),
    "careless": (TRAIN_X[160:220], np.where(np.arange(60) % 3, TRAIN_Y[160:220], 1 - TRAIN_Y[160:220])),
}


def auc(coalition: tuple[int, ...]) -> float:
    """Area under the ROC curve on the test set; without data 0.5, as for a coin."""
    data = [list(SOURCES.values())[i] for i in coalition]
    if not data:
        return 0.5
    x, y = (np.concatenate(parts) for parts in zip(*data, strict=True))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    return float(roc_auc_score(TEST_Y, model.predict_proba(TEST_X)[:, 1]))


def main() -> fv.Values:
    game = fv.FunctionGame(len(SOURCES), auc, names=list(SOURCES), batch=False, jobs=2, timeout=60, retries=1)
    with tempfile.TemporaryDirectory() as folder:
        values = fv.value(game, method="exact", store=Path(folder) / "store.db")
    Console().print(values.table())
    for line in fv.payout(values, pot=10_000, currency="EUR").lines:
        print(f"{line.name:14}{line.amount:>10} EUR")
    return values


if __name__ == "__main__":
    main()
