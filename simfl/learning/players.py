"""The layout of several players' predictors in one set of weights.

A tensor named "player-<k>/<parameter>" belongs to player k's predictor alone; whatever has a
parameter's own name is common to all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from simfl.learning.parameters import Parameters

_PREFIX = "player-"


def action_name(player: int, name: str) -> str:
    """The name, among all weights, of a parameter of a player's predictor."""
    return f"{_PREFIX}{player}/{name}"


def players_of(names: Iterable[str]) -> list[int]:
    """The players whose predictors are among these names, in order; none, of a common model."""
    own = {name.partition("/")[0] for name in names if name.startswith(_PREFIX)}
    return sorted(int(one.removeprefix(_PREFIX)) for one in own)


def action_of(weights: Parameters, player: int) -> Parameters:
    """A player's predictor, under the parameters' own names."""
    prefix = action_name(player, "")
    return {
        name.removeprefix(prefix): one for name, one in weights.items() if name.startswith(prefix)
    }


def model_of(weights: Parameters, player: int) -> Parameters:
    """What is common and a player's predictor: a whole model."""
    common = {name: one for name, one in weights.items() if not name.startswith(_PREFIX)}
    return {**common, **action_of(weights, player)}


def models_of(weights: Parameters) -> list[Parameters]:
    """Every player's model, whose mean of outputs is the prediction; a common model alone."""
    players = players_of(weights)
    return [model_of(weights, player) for player in players] if players else [weights]
