"""The layout of several players' predictors in one set of weights.

A tensor named "player-<k>/<parameter>" belongs to player k's predictor; tensors with plain
parameter names are common to all players.
"""

from __future__ import annotations

from collections.abc import Iterable

from simfl.learning.parameters import Parameters

_PREFIX = "player-"


def action_name(player: int, name: str) -> str:
    """The name of a parameter of a player's predictor in the set of weights."""
    return f"{_PREFIX}{player}/{name}"


def players_of(names: Iterable[str]) -> list[int]:
    """The players with predictors among these names, in order; none for a common model."""
    own = {name.partition("/")[0] for name in names if name.startswith(_PREFIX)}
    return sorted(int(one.removeprefix(_PREFIX)) for one in own)


def action_of(weights: Parameters, player: int) -> Parameters:
    """A player's predictor, under the plain parameter names."""
    prefix = action_name(player, "")
    return {
        name.removeprefix(prefix): one for name, one in weights.items() if name.startswith(prefix)
    }


def model_of(weights: Parameters, player: int) -> Parameters:
    """The common tensors with a player's predictor: a complete model."""
    common = {name: one for name, one in weights.items() if not name.startswith(_PREFIX)}
    return {**common, **action_of(weights, player)}


def models_of(weights: Parameters) -> list[Parameters]:
    """Every player's model (their mean output is the prediction), or the single common model."""
    players = players_of(weights)
    return [model_of(weights, player) for player in players] if players else [weights]
