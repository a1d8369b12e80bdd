"""What the columns of a run's tables of versions, evaluations and clients mean."""

from __future__ import annotations

from collections.abc import Mapping

from simfl.eventlog.kinds import CLIENT_STATES

_OWN = "its own training examples (or those of data.client_test_share)"

ROUNDS: Mapping[str, str] = {
    "version": "number of the global version; the initial model is 0 and has no row",
    "time_s": "simulated seconds when it was published",
    "round": "number of the round, or of the dispatch, that it came from",
    "edge": "edge server whose model was merged; empty if the version is not of a single one",
    "accuracy": "accuracy on the test set (R^2 of a regression; the mean of clients' own models);"
    " empty if not evaluated",
    "loss": "mean loss on the test set; empty if not evaluated",
    "latency_s": "seconds since the version before, or since the start",
    "energy_j": "joules of everything since the start",
    "client_energy_j": "joules of the clients since the start",
    "client_active_j": "joules of the clients above their idle power since the start",
    "server_energy_j": "joules of edge servers and cloud since the start",
    "network_energy_j": "joules inside the network since the start",
    "bytes": "bytes of messages that arrived since the start, counted on every link crossed",
    "participants": "different clients whose updates are in the version, also by an edge server",
    "updates": "updates merged by the cloud: of clients, or the models of edge servers",
    "staleness": "mean number of versions between an update's download and its merge",
    "staleness_max": "that of the oldest update",
}
"""Columns of rounds.parquet. A Flower app's own metrics have further ones."""

EVALUATIONS: Mapping[str, str] = {
    "version": "number of the global version",
    "client": "client; empty for a figure of all clients",
    "on": "test; own: the client's training data; train: all clients'; flipped: a test set with a"
    " feature flipped; validation: the server's validation set, for the measure model_selection",
    "loss": "mean loss",
    "accuracy": "accuracy, or R^2 of a regression",
}
"""Columns of evaluations.parquet."""

_STATES = {
    "idle": "waiting",
    "download": "receiving, with pauses",
    "compute": "training, or answering a query, with pauses (leaving: pause)",
    "upload": "sending, with pauses",
    "tail": "with its radio awake after a message",
}

CLIENTS: Mapping[str, str] = {
    "client": "number of the client",
    "device": "profile of its device",
    "device_class": "class of the device: sbc, phone, ...",
    "link": "profile of its link",
    "edge": "its edge server; its access point in a run without edge servers",
    "num_examples": "training examples that it holds",
    "label_counts": "how many of these have each label; empty for a regression",
    "frequency_min_hz": "lowest clock frequency",
    "frequency_max_hz": "highest clock frequency",
    "cycles_per_example": "nominal cycles of one example's training step with this model",
    "cycles_per_step": "cycles of a step besides its examples, if some device has such costs",
    "cycles_per_training": "cycles of a training besides its steps, if some device has such costs",
    "work_factor": "factor on its cycles",
    "speed_factor": "divides its computing times",
    "rate_factor": "factor on the rates of its link",
    "uplink_bps": "its uplink rate, in bits per second",
    "downlink_bps": "its downlink rate, in bits per second",
    "power_idle_w": "idle power of device and radio",
    "x_m": "its position, if some link depends on distance",
    "y_m": "its position, if some link depends on distance",
    "battery_j": "joules of its full battery, if some device has one",
    "participations": "client rounds that it finished",
    "dropped": "of these, rounds whose update came too late or whose round was given up",
    **{f"{state}_s": f"seconds {_STATES[state]}" for state in CLIENT_STATES},
    **{f"{state}_j": f"joules while {_STATES[state]}" for state in CLIENT_STATES},
    "energy_j": "joules in all",
    "active_j": "of these, joules above idle power",
    "carbon_gco2": "grams of CO2, if the population has a region",
    "electricity_cost": "money for electricity, if the region has prices",
    "bytes_received": "bytes of messages that it received",
    "bytes_sent": "bytes of its messages that arrived",
    "global_loss": f"loss of the last global model on {_OWN}",
    "global_accuracy": f"accuracy of the last global model on {_OWN}",
    "served_loss": f"loss of what the client is served (its reward, or its own model) on {_OWN}",
    "served_accuracy": f"accuracy of what the client is served on {_OWN}",
    "contribution": "accuracy on the test set of what it learns alone, if that is computed",
    "reward_loss": "loss on the test set of what it is served, if that is computed",
    "reward_accuracy": "accuracy on the test set of what it is served, if that is computed",
}
"""Columns of clients.parquet; those of costs, positions and rewards only where they apply."""
