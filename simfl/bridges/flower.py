"""The protocol of a Flower app: its ServerApp decides which clients get which messages.

    protocol:
      name: simfl.bridges.flower:Flower
      app: path/of/the/app
      run_config: {num-server-rounds: 10}

`simfl flower` writes such a scenario; docs/flower.md says what is supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

from simfl.bridges.app_folder import BadApp, fused, place_in, read_settings, written_for
from simfl.bridges.message_work import DeclaredWork, MessageWork
from simfl.bridges.present import Present, present
from simfl.protocols.base import Protocol
from simfl.protocols.clock import Process
from simfl.protocols.learned_values import LearnedValues, ValueStore
from simfl.protocols.program import Program
from simfl.protocols.run import Run
from simfl.protocols.timing_only import TimingOnly
from simfl.streams import Streams

MISSING = "Flower is not installed: pip install 'simfl[flower]' (docs/flower.md)"


@dataclass(frozen=True)
class DeclaredBytes:
    """Bytes of a kind of message and of its answer, in place of their own; null: their own."""

    down: Annotated[int | None, ">= 0"] = None
    up: Annotated[int | None, ">= 0"] = None


@dataclass(frozen=True)
class Flower(Protocol):
    """A Flower app's ServerApp and ClientApp, unchanged, on simulated machines."""

    name: ClassVar[str] = "flower"
    overlapping: ClassVar[bool] = True
    brings_values: ClassVar[bool] = True

    app: Annotated[str, "the app's folder, in which its pyproject.toml lies"]
    run_config: Annotated[
        dict[str, bool | int | float | str | dict[str, Any]], "other values of the app's own keys"
    ] = field(default_factory=dict)
    node_config: Annotated[
        dict[str, bool | int | float | str],
        "further keys of each node's node_config; in texts {partition-id} is the node's number",
    ] = field(default_factory=dict)
    work: Annotated[
        dict[str, DeclaredWork], "what a type of message (train, evaluate) takes; else counted"
    ] = field(default_factory=dict)
    bytes: Annotated[
        dict[str, DeclaredBytes], "sizes of a type's messages; else those of what is sent"
    ] = field(default_factory=dict)
    accuracy: Annotated[str | None, "metric that is a version's accuracy; null: by its name"] = None
    loss: Annotated[str | None, "metric that is a version's loss; null: by its name"] = None
    recount_every: Annotated[
        int | None, ">= 1", "messages from one count of operations to the next; null: once"
    ] = None

    def __post_init__(self) -> None:
        try:
            settings = read_settings(Path(self.app))
        except BadApp as error:
            raise ValueError(f"app: {error}") from error
        try:
            fused(settings, self.run_config)
        except BadApp as error:
            raise ValueError(f"run_config: {error}") from error
        if find_spec("flwr") is None:
            raise ValueError(MISSING)

    @property
    def asks(self) -> frozenset[str]:
        """Empty: the app decides instead of decision rules."""
        return frozenset()

    def values(
        self,
        plain: TimingOnly,
        streams: Streams,
        store: ValueStore | None,
        platform: Mapping[str, Any],
    ) -> LearnedValues:
        """The answers of the app's clients, and its figures."""
        from simfl.bridges.flower_values import AppValues, Named

        work = MessageWork(self.work, self.recount_every)
        named = Named(self.accuracy, self.loss)
        return AppValues(plain, work, named, streams, store, platform)

    def process(self, run: Run) -> Process:
        """Run the ServerApp to its end, alternating with the clock."""
        from simfl.bridges.app_clock import AppClock, app_clock
        from simfl.bridges.flower_app import FlowerApp
        from simfl.bridges.flower_grid import SimulatedGrid
        from simfl.bridges.flower_old_servers import old_servers
        from simfl.bridges.flower_strategies import recorded_strategies
        from simfl.bridges.flower_values import AppFailed, generators, torch_settings

        values: Any = run.values
        folder = Path(self.app)

        def serve() -> None:
            try:
                app.call_server(grid)
            except (Exception, SystemExit) as error:
                raise AppFailed(f"the ServerApp failed: {place_in(folder, error)}") from error
            program.wait(grid.finished)

        program = Program(serve)
        grid = SimulatedGrid(run, program, values, self._sizes)
        clock = AppClock(
            folder,
            now_s=lambda: run.clock.now_s,
            sleep=grid.sleep,
            serving=program.is_running_this,
            answering=lambda: values.answering,
        )
        for before in (torch_settings(), app_clock(clock)):
            values.open_until_closed.enter_context(before)
        try:
            app = FlowerApp(folder, self.run_config, self.node_config)
        except Exception as error:  # an app may raise anything when it is imported
            place = f"{place_in(folder, error)}{written_for(folder, error)}"
            raise AppFailed(f"the app cannot be loaded: {place}") from error
        values.open(app, run.world.num_clients, clock)
        for context in (
            present(Present(lambda: run.clock.now_s, values.tell)),
            recorded_strategies(values.tell, values.tell_model),
            old_servers(values.tell, values.tell_model),
            generators(values.server_seed),
        ):
            values.open_until_closed.enter_context(context)
        values.open_until_closed.callback(program.end)
        yield from program.process()

    def _sizes(self, kind: str) -> tuple[int | None, int | None]:
        """Declared bytes of a type of message, down and up."""
        given = self.bytes.get(kind, DeclaredBytes())
        return given.down, given.up
