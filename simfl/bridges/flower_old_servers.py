"""Servers of Flower's old API (`server_fn`, `NumPyClient`), under simulated time.

Flower runs such an app by a server that keeps its list of nodes in one thread, asks every client
from another, and takes the answers in the order in which these threads end. Simulated time has one
order. So three of Flower's functions are replaced during a run: nodes are looked up when the server
asks for them, a round's messages are sent together, and answers are taken in the order of the
messages. Strategies, the server's rounds and the conversion of messages are Flower's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace
from typing import Any

from flwr.app import Message
from flwr.common import Code, parameters_to_ndarrays
from flwr.server import server as flowers
from flwr.server.compat import app as compat
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.workflow import default_workflows as workflows

from simfl.bridges.flower_app import single
from simfl.bridges.flower_strategies import Tell, TellModel
from simfl.bridges.present import now


@contextmanager
def old_servers(tell: Tell, tell_model: TellModel) -> Iterator[None]:
    """Replaces them within the block, and reports what their strategies aggregate."""
    run_fl, work_through = compat.run_fl, workflows.DefaultWorkflow.__call__

    def listened_to(server: Any, config: Any) -> Any:
        if (strategy := getattr(server, "strategy", None)) is not None:
            _listen(strategy, tell, tell_model)
        return run_fl(server, config)

    def heard(workflow: Any, grid: Any, context: Any) -> None:
        if (strategy := getattr(context, "strategy", None)) is not None:
            _listen(strategy, tell, tell_model)
        work_through(workflow, grid, context)

    replaced: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
        (compat, "run_fl", listened_to),
        (compat, "start_update_client_manager_thread", _keep_nodes),
        (workflows.DefaultWorkflow, "__call__", heard),
        (workflows, "start_update_client_manager_thread", _keep_nodes),
        (flowers, "fit_clients", _asking("fit")),
        (flowers, "evaluate_clients", _asking("evaluate")),
        (flowers, "reconnect_clients", lambda **_: ([], [])),  # there are no connections
    )
    before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, ours in replaced:
        setattr(module, name, ours)
    try:
        yield
    finally:
        for module, name, its_own in before:
            setattr(module, name, its_own)


def _listen(strategy: Any, tell: Tell, tell_model: TellModel) -> None:
    """Report what a strategy aggregates and evaluates."""
    fit, evaluate_clients = strategy.aggregate_fit, strategy.aggregate_evaluate
    evaluate_here = strategy.evaluate

    def with_nodes(configure: Callable[..., Any]) -> Callable[..., Any]:
        def configured(server_round: int, parameters: Any, client_manager: Any) -> Any:
            client_manager.num_available()  # a strategy may read `client_manager.clients` itself
            return configure(server_round, parameters, client_manager)

        return configured

    def aggregate_fit(*args: Any, **named: Any) -> Any:
        parameters, metrics = made = fit(*args, **named)
        if parameters is not None:
            tell_model(_arrays(parameters))
        else:
            tell_model(None)
        tell("train", single(metrics))
        return made

    def aggregate_evaluate(*args: Any, **named: Any) -> Any:
        loss, metrics = made = evaluate_clients(*args, **named)
        if metrics and loss is not None:  # otherwise the clients' own reports say more
            tell("evaluate", single({"loss": loss, **metrics}))
        return made

    def evaluate(server_round: int, *args: Any, **named: Any) -> Any:
        made = evaluate_here(server_round, *args, **named)
        if made is not None and server_round:
            tell("server", single({"loss": made[0], **made[1]}))
        return made

    vars(strategy).update(
        configure_fit=with_nodes(strategy.configure_fit),
        configure_evaluate=with_nodes(strategy.configure_evaluate),
        aggregate_fit=aggregate_fit,
        aggregate_evaluate=aggregate_evaluate,
        evaluate=evaluate,
    )


def _arrays(parameters: Any) -> dict[str, Any]:
    """A model's arrays by their places; a model of bytes (trees, say) has none."""
    try:
        arrays = parameters_to_ndarrays(parameters)
    except (TypeError, ValueError, EOFError):  # bytes that are no arrays
        return {}
    return {str(place): array for place, array in enumerate(arrays)}


def _keep_nodes(grid: Any, client_manager: Any) -> tuple[Any, Event, Event]:
    """Replaces the thread by a manager of clients that looks for the nodes when it is asked.

    A server that waits for more of them asks the grid repeatedly, which moves the clock.
    """
    proxies: dict[int, Any] = {}

    def look() -> None:
        there = grid.present_nodes()
        for node in sorted(set(proxies).difference(there)):
            client_manager.unregister(proxies.pop(node))
        for node in there:
            if node not in proxies:
                proxy = GridClientProxy(node_id=node, grid=grid, run_id=grid.run.run_id)
                client_manager.register(proxy)
                proxies[node] = proxy

    def wait_for(num_clients: int, timeout: float = 86400.0) -> bool:
        until_s = now() + timeout
        look()
        while len(proxies) < num_clients and now() < until_s:
            grid.get_node_ids()
            look()
        return len(proxies) >= num_clients

    def after_a_look(method: Callable[..., Any]) -> Callable[..., Any]:
        def looking(*args: Any, **named: Any) -> Any:
            look()
            return method(*args, **named)

        return looking

    for name in ("num_available", "all", "sample"):
        setattr(client_manager, name, after_a_look(getattr(client_manager, name)))
    client_manager.wait_for = wait_for
    look()
    registered = Event()
    registered.set()
    return SimpleNamespace(join=lambda: None), Event(), registered


class _Sent(BaseException):
    """Raised when a proxy has written its message."""


class _Writing:
    """A grid that captures the message that a proxy wants to send."""

    def __init__(self) -> None:
        self.message: Message | None = None

    def send_and_receive(self, messages: Sequence[Message]) -> Sequence[Message]:
        (self.message,) = messages
        raise _Sent


def _asking(method: str) -> Callable[..., Any]:
    """Like Flower's function to ask clients, but all at once: returns results and failures."""

    def ask(
        client_instructions: Sequence[tuple[Any, Any]],
        max_workers: int | None,
        timeout: float | None,
        group_id: int,
    ) -> tuple[list[Any], list[Any]]:
        def written(proxy: Any, instruction: Any, grid: Any) -> Any:
            own, proxy.grid = proxy.grid, grid
            try:
                return getattr(proxy, method)(instruction, timeout=timeout, group_id=group_id)
            except _Sent:
                return grid.message
            finally:
                proxy.grid = own

        messages = [written(proxy, one, _Writing()) for proxy, one in client_instructions]
        grids = [proxy.grid for proxy, _ in client_instructions]
        replies = list(grids[0].send_and_receive(messages)) if grids else []
        results: list[Any] = []
        failures: list[Any] = []
        for (proxy, one), reply in zip(client_instructions, replies, strict=True):
            given = SimpleNamespace(send_and_receive=lambda messages, reply=reply: [reply])
            try:
                result = proxy, written(proxy, one, given)
            except Exception as error:  # noqa: BLE001  # as Flower does
                failures.append(error)
                continue
            (results if result[1].status.code == Code.OK else failures).append(result)
        return results, failures

    return ask
