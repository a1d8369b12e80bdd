"""Flower's strategies, listened to: what they aggregate and evaluate is a run's figures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flwr.serverapp.strategy import Strategy

from simfl.bridges.flower_app import single

Tell = Callable[[str, Mapping[str, float]], None]
"""Takes metrics and their origin: server, evaluate or train."""

TellModel = Callable[[Mapping[str, Any]], None]
"""Takes the arrays of the server's model, by name."""


@contextmanager
def recorded_strategies(tell: Tell, tell_model: TellModel) -> Iterator[None]:
    """Listens to Flower's strategies: what they aggregate and evaluate is told, by its origin.

    A strategy runs as it is; its own `start` is not heard where it does not call Flower's.
    """
    start = Strategy.start
    signature = inspect.signature(start)

    def heard(self: Strategy, *args: Any, **named: Any) -> Any:
        given = signature.bind(self, *args, **named)
        aggregate_train, aggregate_evaluate = self.aggregate_train, self.aggregate_evaluate
        evaluate_fn = given.arguments.get("evaluate_fn")

        def train(*args: Any, **named: Any) -> Any:
            arrays, metrics = made = aggregate_train(*args, **named)
            if arrays is not None:
                tell_model({name: array.numpy() for name, array in arrays.items()})
            tell("train", single(metrics))
            return made

        def evaluate(*args: Any, **named: Any) -> Any:
            metrics = aggregate_evaluate(*args, **named)
            tell("evaluate", single(metrics))
            return metrics

        def at_server(server_round: int, *args: Any, **named: Any) -> Any:
            assert evaluate_fn is not None
            metrics = evaluate_fn(server_round, *args, **named)
            if server_round:
                tell("server", single(metrics))
            return metrics

        if evaluate_fn is not None:
            given.arguments["evaluate_fn"] = at_server
        vars(self).update(aggregate_train=train, aggregate_evaluate=evaluate)
        try:
            return start(*given.args, **given.kwargs)
        finally:
            for name in ("aggregate_train", "aggregate_evaluate"):
                vars(self).pop(name, None)

    Strategy.start = heard
    try:
        yield
    finally:
        Strategy.start = start
