"""Training on a Ray cluster, or with several workers on this machine."""

from fedvalue.trainers.ray._trainer import RayTrainer

__all__ = ["RayTrainer"]
