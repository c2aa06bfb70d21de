"""Games: v(S) for lists of coalitions, from a table, a function, or federated training."""

from fedvalue.games._base import (
    Certain,
    Disclosing,
    Examined,
    Game,
    Grounded,
    Judged,
    Kindred,
    Measured,
    Named,
    Priced,
    Random,
    Recognised,
    Reseeded,
    Sharing,
    Staged,
    Tested,
    TestedByClient,
    Together,
    Traceable,
    client_names,
    evaluate_trials,
    is_named,
    is_random,
    takes_claims_of,
)
from fedvalue.games._empty import EmptyLike
from fedvalue.games._federated import FederatedGame, id_of_named
from fedvalue.games._function import FunctionGame
from fedvalue.games._lacking import Reading, completed, lacking
from fedvalue.games._members import Members
from fedvalue.games._pooled import PooledGame
from fedvalue.games._recognised import refuse_changed, refuse_unrecognised
from fedvalue.games._recorded import RecordedGame
from fedvalue.games._restricted import RestrictedGame
from fedvalue.games._table import GameLike, TableGame, as_game
from fedvalue.games._table_file import read_table
from fedvalue.games._test_parts import TestPart

__all__ = [
    "Certain",
    "Disclosing",
    "Examined",
    "EmptyLike",
    "FederatedGame",
    "FunctionGame",
    "Game",
    "GameLike",
    "Grounded",
    "Judged",
    "Kindred",
    "Measured",
    "Members",
    "Named",
    "PooledGame",
    "Priced",
    "Reading",
    "Random",
    "Recognised",
    "RecordedGame",
    "Reseeded",
    "RestrictedGame",
    "Sharing",
    "Staged",
    "TableGame",
    "TestPart",
    "Tested",
    "TestedByClient",
    "Together",
    "Traceable",
    "as_game",
    "client_names",
    "completed",
    "evaluate_trials",
    "is_named",
    "is_random",
    "id_of_named",
    "lacking",
    "read_table",
    "refuse_changed",
    "refuse_unrecognised",
    "takes_claims_of",
]
