"""Runs in MLflow, Weights & Biases and TensorBoard, while they go on.

    import fedvalue as fv
    from fedvalue.adapters.tracking import MLflow, TensorBoard, Tracker

    with Tracker(MLflow("consortium"), TensorBoard("logs/third-quarter")) as tracker:
        result = tracker.run(fv.Job("digits", clients=6))

A `Tracker` says what there is to say; a `Tool` takes it to where it is kept. Its package is imported when it is made.
"""

from fedvalue.adapters.tracking._tools import MLflow, Row, TensorBoard, Tool, WandB
from fedvalue.adapters.tracking._tracker import Following, Tracker

__all__ = ["Following", "MLflow", "Row", "TensorBoard", "Tool", "Tracker", "WandB"]
