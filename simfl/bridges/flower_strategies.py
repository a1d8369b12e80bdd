"""Hooks into Flower's strategies: their aggregations and evaluations become a run's figures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any

from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from simfl.bridges.flower_app import single

Tell = Callable[[str, Mapping[str, float]], None]
"""Takes metrics and their origin: server, evaluate or train."""

TellModel = Callable[[Mapping[str, Any] | None], None]
"""Takes the arrays of the server's model, by name; None if the updates were discarded."""

Method = Callable[..., Any]


@contextmanager
def recorded_strategies(tell: Tell, tell_model: TellModel) -> Iterator[None]:
    """Reports the results of Flower's strategies, and of an app's classes derived from them.

    A strategy runs unchanged, even if it overrides `start`. If strategies are nested, only the
    outermost is reported, because its result is the one that counts.
    """

    def trained(made: Any) -> None:
        arrays, metrics = made if isinstance(made, tuple) and len(made) == 2 else (None, None)
        if isinstance(arrays, ArrayRecord):
            tell_model(_values(arrays))
        elif isinstance(made, tuple) and arrays is None:
            tell_model(None)
        tell("train", _metrics(metrics))

    def at_server(evaluate_fn: Method) -> Method:
        @wraps(evaluate_fn)
        def heard(*args: Any, **named: Any) -> Any:
            made = evaluate_fn(*args, **named)
            if args[0] if args else named.get("server_round", True):
                tell("server", _metrics(made))
            return made

        return heard

    def start(method: Method) -> Method:
        signature = inspect.signature(method)

        @wraps(method)
        def heard(*args: Any, **named: Any) -> Any:
            given = signature.bind(*args, **named)
            if (evaluate_fn := given.arguments.get("evaluate_fn")) is not None:
                given.arguments["evaluate_fn"] = at_server(evaluate_fn)
            return method(*given.args, **given.kwargs)

        return heard

    listeners: dict[str, Callable[[Method], Method]] = {
        "start": start,
        "aggregate_train": _outermost(trained),
        "aggregate_evaluate": _outermost(lambda made: tell("evaluate", _metrics(made))),
    }
    before: list[tuple[type, str, Method | None]] = []

    def listen(strategy: type) -> None:
        for name, listener in listeners.items():
            owner = next((one for one in strategy.__mro__ if name in vars(one)), strategy)
            if owner is not strategy and issubclass(owner, Strategy):
                continue  # it is heard there
            if inspect.isfunction(method := vars(owner).get(name)):
                # What a class that is no strategy brings is heard in the strategy alone.
                before.append((strategy, name, method if owner is strategy else None))
                setattr(strategy, name, listener(method))

    for one in sorted(_with_below(Strategy), key=lambda one: len(one.__mro__)):  # bases first
        listen(one)
    Strategy.__init_subclass__ = classmethod(listen)
    try:
        yield
    finally:
        del Strategy.__init_subclass__
        for one, name, method in before:
            if method is None:
                delattr(one, name)
            else:
                setattr(one, name, method)


def _outermost(tell: Callable[[Any], None]) -> Callable[[Method], Method]:
    """Reports what methods return, except for calls within another such call."""
    depth = 0

    def listener(method: Method) -> Method:
        @wraps(method)
        def heard(*args: Any, **named: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                made = method(*args, **named)
            finally:
                depth -= 1
            if not depth:
                tell(made)
            return made

        return heard

    return listener


def _with_below(one: type) -> set[type]:
    """A class and all classes derived from it."""
    return {one}.union(*map(_with_below, one.__subclasses__()))


def _metrics(made: Any) -> dict[str, float]:
    return single(made) if isinstance(made, Mapping) else {}


def _values(arrays: ArrayRecord) -> dict[str, Any]:
    """Arrays by name; those in the app's own formats, which Flower cannot read, are left out."""
    found = {}
    for name, array in arrays.items():
        with suppress(TypeError):
            found[name] = array.numpy()
    return found
