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
"""Takes the arrays of the server's model, by name; None: it made none of the updates it had."""

Method = Callable[..., Any]


@contextmanager
def recorded_strategies(tell: Tell, tell_model: TellModel) -> Iterator[None]:
    """Listens to Flower's strategies, and to those that an app has made of them.

    A strategy runs as it is, also where its `start` is its own. Of strategies within others the
    outermost is heard: what it makes of the others' is what counts.
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
    before: list[tuple[type, str, Method]] = []

    def listen(strategy: type) -> None:
        for name, listener in listeners.items():
            if inspect.isfunction(method := vars(strategy).get(name)):
                before.append((strategy, name, method))
                setattr(strategy, name, listener(method))

    for one in _with_below(Strategy):
        listen(one)
    Strategy.__init_subclass__ = classmethod(listen)
    try:
        yield
    finally:
        del Strategy.__init_subclass__
        for one, name, method in before:
            setattr(one, name, method)


def _outermost(tell: Callable[[Any], None]) -> Callable[[Method], Method]:
    """Tells what methods return, but not of those that are called by another one of them."""
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
    """A class and all that are derived from it."""
    return {one}.union(*map(_with_below, one.__subclasses__()))


def _metrics(made: Any) -> dict[str, float]:
    return single(made) if isinstance(made, Mapping) else {}


def _values(arrays: ArrayRecord) -> dict[str, Any]:
    """Arrays by name; those in a form of the app's own, which Flower cannot read, are left out."""
    found = {}
    for name, array in arrays.items():
        with suppress(TypeError):
            found[name] = array.numpy()
    return found
