"""A Flower app: its folder, its ServerApp and ClientApp, and the messages between them.

Knowledge of flwr's private parts is limited to this file (whose task the process is, `identify`,
and how messages are serialised) and `flower_old_servers.py`. Only files called `flower_*.py` import
flwr.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flwr.app import (
    Context,
    Error,
    Message,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from simfl.bridges.app_folder import (
    BadApp,
    Values,
    digest_of_sources,
    forget_modules,
    fused,
    read_settings,
)

RUN_ID, SERVER_NODE, FIRST_NODE = 1, 1, 10**18
"""Identifiers, constant so that runs are identical; those of nodes are as long as Flower's own."""

CLIENT_APP_RAISED, MESSAGE_UNAVAILABLE = 2, 3
"""Codes of Flower's errors (flwr.common.constant.ErrorCode)."""

SECURE_AGGREGATION = "secaggplus_configs"
"""The record in which Flower's SecAgg+ names the stage of a message."""

OLD_STATUS = "res.status"
"""The ending of the record's name in which an answer of the old API says whether it succeeded."""

FIRST_STAGE, TRAINING_STAGE = "setup", "collect_masked_vectors"
"""Two of the four messages of such a round; only the second trains, the others exchange keys and
shares.
"""


class FlowerApp:
    """An app's two halves, freshly loaded from its folder, its run config and its nodes' config."""

    def __init__(
        self, folder: Path, run_config: Values, node_config: Mapping[str, Any] | None = None
    ) -> None:
        settings = read_settings(folder)
        self.folder = folder
        self.run_config = fused(settings, run_config)
        self.node_config = dict(node_config or {})
        self._modules_before = set(sys.modules)
        forget_modules(folder)
        self._path = str(folder.absolute())
        sys.path.insert(0, self._path)
        try:
            components = settings["components"]
            # An app may change the working directory; simfl must not, as a run's own paths may be
            # relative.
            with chdir(Path.cwd()):
                self.server: ServerApp = _loaded(components["serverapp"], ServerApp)
                self.client: ClientApp = _loaded(components["clientapp"], ClientApp)
                self._works_in = Path.cwd()
        except BaseException:
            self.close()
            raise
        self.source = digest_of_sources(folder, self._modules_before)

    def close(self) -> None:
        """Unload the app's modules, so that another run loads them afresh."""
        if self._path in sys.path:
            sys.path.remove(self._path)
        forget_modules(self.folder)

    def call_server(self, grid: Grid) -> None:
        """Run the server to its end."""
        identify()
        context = Context(
            run_id=RUN_ID,
            node_id=SERVER_NODE,
            node_config={},
            state=RecordDict(),
            run_config=dict(self.run_config),
        )
        with chdir(self._works_in):
            self.server(grid, context)

    def call_client(
        self, message: Message, client: int, clients: int, state: bytes
    ) -> tuple[Message, bytes]:
        """A client's answer to a message, and its state afterwards (serialised, as given)."""
        context = Context(
            run_id=RUN_ID,
            node_id=FIRST_NODE + client,
            node_config={
                "partition-id": client,
                "num-partitions": clients,
                **{
                    key: value.replace("{partition-id}", str(client))
                    if isinstance(value, str)
                    else value
                    for key, value in self.node_config.items()
                },
            },
            state=unpacked(state),
            run_config=dict(self.run_config),
        )
        with chdir(self._works_in):
            reply = self.client(message, context)
        if not isinstance(reply, Message):
            raise TypeError(f"the ClientApp answered with {type(reply).__name__}, not a Message")
        return reply, packed(context.state)


def node_of(client: int) -> int:
    """The identifier of a client's node."""
    return FIRST_NODE + client


def client_of(message: Message, clients: int) -> int:
    """The client that a message is addressed to; raises ValueError if there is none."""
    client = int(message.metadata.dst_node_id) - FIRST_NODE
    if not 0 <= client < clients:
        raise ValueError(f"a message to node {message.metadata.dst_node_id}, which is not there")
    return client


def addressed(message: Message, content: bytes, number: int) -> Message:
    """The message as its receiver gets it: a copy, with its sender's identifiers."""
    about = message.metadata
    copied = Message(
        unpacked(content),
        dst_node_id=about.dst_node_id,
        message_type=about.message_type,
        ttl=about.ttl,
        group_id=about.group_id,
    )
    # As in Flower's own grids.
    named = {"_message_id": f"{number:064x}", "_run_id": RUN_ID, "_src_node_id": SERVER_NODE}
    copied.metadata.__dict__.update(named)
    return copied


def answered(message: Message, content: bytes) -> Message:
    """A reply with this content."""
    return _named(Message(unpacked(content), reply_to=message))


def refused(message: Message, code: int, reason: str) -> Message:
    """A reply that reports an error."""
    return _named(Message(Error(code=code, reason=reason), reply_to=message))


def _named(reply: Message) -> Message:
    reply.metadata.__dict__["_message_id"] = f"{reply.metadata.reply_to_message_id[:-1]}r"
    return reply


def packed(content: RecordDict) -> bytes:
    """Records, serialised as Flower sends them."""
    from flwr.common.serde import recorddict_to_proto

    serialised: bytes = recorddict_to_proto(content).SerializeToString(deterministic=True)
    return serialised


def unpacked(content: bytes) -> RecordDict:
    """Records as received."""
    from flwr.common.serde import recorddict_from_proto
    from flwr.proto.recorddict_pb2 import RecordDict as Proto

    return recorddict_from_proto(Proto.FromString(content))


def size_bytes(message: Message, content_bytes: int) -> int:
    """Size of a whole serialised message whose content has this many bytes."""
    from flwr.common.serde import error_to_proto, metadata_to_proto
    from flwr.proto.message_pb2 import Message as Proto

    error = error_to_proto(message.error) if message.has_error() else None
    around = Proto(metadata=metadata_to_proto(message.metadata), error=error)
    if message.has_error():
        return int(around.ByteSize())
    length_bytes = max((content_bytes.bit_length() + 6) // 7, 1)
    return int(around.ByteSize()) + 1 + length_bytes + content_bytes


def numbers(content: RecordDict) -> dict[str, float]:
    """All single numbers in an answer's records, except Flower's own."""
    found: dict[str, float] = {}
    for name, record in content.config_records.items():
        if name != SECURE_AGGREGATION and not name.endswith(OLD_STATUS):
            found.update(single(record))
    for record in content.metric_records.values():
        found.update(single(record))
    if "num_examples" in found:
        found.setdefault("num-examples", found.pop("num_examples"))
    return found


def secure_stage(content: RecordDict) -> str | None:
    """The SecAgg+ stage of a message; None if it does not belong to SecAgg+."""
    record = content.config_records.get(SECURE_AGGREGATION)
    stage = None if record is None else record.get("stage")
    return stage if isinstance(stage, str) else None


def single(metrics: Mapping[str, Any] | None) -> dict[str, float]:
    """The single numbers among metrics of any library; nested ones become `key[name]`."""
    found: dict[str, float] = {}
    for key, one in (metrics or {}).items():
        if isinstance(one, Mapping):
            found.update({f"{key}[{name}]": value for name, value in single(one).items()})
        elif isinstance(one, int | float) or getattr(one, "shape", None) == ():
            with suppress(TypeError, ValueError):
                found[str(key)] = float(one)
    return found


def has_model(content: RecordDict) -> bool:
    """Whether records hold a model or a part of one: arrays, or else bytes (such as trees)."""
    return _has_arrays(content) or any(_bytes_in(content))


def model_digest(content: RecordDict) -> bytes:
    """A digest that is equal for records with the same model; empty if there is none."""
    if not has_model(content):
        return b""
    digest = hashlib.sha256()
    for record in content.array_records.values():  # the old API uses other names in evaluations
        for key, array in record.items():
            digest.update(f"{key} {array.dtype} {array.shape}".encode() + array.data)
    if not _has_arrays(content):
        for one in _bytes_in(content):
            digest.update(hashlib.sha256(one).digest())
    return digest.digest()


def _has_arrays(content: RecordDict) -> bool:
    return any(one.data for record in content.array_records.values() for one in record.values())


def _bytes_in(content: RecordDict) -> Iterator[bytes]:
    """Values of type bytes in an app's own configuration records."""
    for name, record in content.config_records.items():
        if name != SECURE_AGGREGATION:
            yield from (one for one in record.values() if isinstance(one, bytes))


def platform() -> dict[str, str]:
    """Versions, other than torch's, that an answer's bits depend on."""
    return {"flwr": version("flwr"), "numpy": version("numpy")}


def identify() -> None:
    """Set this process's task identity: newer versions of Flower read it when a message is created.

    Nothing else of Flower's own is set; versions without it set the identity in the grid.
    """
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:
        return
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = RUN_ID, 1, SERVER_NODE


def _loaded(reference: str, wanted: type) -> Any:
    module, _, names = reference.partition(":")
    found: Any = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    if not isinstance(found, wanted):
        raise BadApp(f"{reference} is a {type(found).__name__}, accepted: a {wanted.__name__}")
    return found
