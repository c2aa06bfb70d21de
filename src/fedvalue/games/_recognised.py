"""Games that a store cannot tell from others, or that are no longer what their id says."""

from __future__ import annotations

from fedvalue.errors import GameError
from fedvalue.games._base import Game, Recognised

__all__ = ["refuse_changed", "refuse_unrecognised"]


def refuse_unrecognised(game: Game) -> None:
    """Raises where the id of a game does not cover all that its utilities depend on."""
    if game.doubts:
        raise GameError(
            "A store recognises a game by its code and the data that it refers to. Here it would not notice changes "
            f"in {'; '.join(game.doubts)}. Read data outside the function and refer to it inside; name the files that "
            "it reads in files=[…]; or name the game yourself with key='…', and change the key whenever the utilities "
            "change (FunctionGame, TorchLearner and Metric take both)."
        )
    if isinstance(game, Recognised) and game.changed:
        raise GameError(
            "The data or code of this game was changed after the game was made, so its id says something else than "
            "what would be evaluated. Make the game again after the last change; if the function itself changes what "
            "it refers to, name the game with key='…'."
        )


def refuse_changed(game: Game) -> None:
    """Raises where a game is no longer what it was when it was made: what came of it must not be kept under its id."""
    if isinstance(game, Recognised) and game.changed:
        raise GameError(
            "The data or code of this game changed while it was evaluated, so a store cannot keep the latest utilities: "
            "whoever evaluates the game anew would get others. If the function itself changes what it refers to, such "
            "as a model that it goes on training, have it make a new one in every call, or name the game with key='…'."
        )
