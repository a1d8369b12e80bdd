"""Warnings of a run: one record per kind, with advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

ADVICE = {
    "unverified_figures": (
        "see them with `simfl list devices -v` (links, servers), and put measured figures into"
        " your own profiles (population.profiles). Differences between runs on the same machines"
        " are more reliable than absolute seconds and joules; which of several machines is better"
        " they do not tell: repeat the study with --draws"
    ),
    "implausible_figures": (
        "check the unit at the end of the key: watts, hertz, bytes, bits per second, seconds. The"
        " run uses the figures as given, and its seconds and joules depend on them"
    ),
    "beyond_calibration": (
        "the profile's seconds and joules are an extrapolation: measure such rows too (`simfl"
        " measure`), and calibrate again"
    ),
    "unread_keys": (
        "remove them from the scenario, or choose parts that read them: the run is the same with"
        " and without them"
    ),
    "shared_generators": (
        "take random numbers from what a part is given (the rng of a decision, a partition or a"
        " measure, a data set's seed, a codec's generator, Streams): then the same scenario and"
        " seed give the same run, and comparisons have common random numbers"
    ),
    "larger_messages": (
        "use a smaller share, fewer bits, or another encoding of positions (`simfl show top_k`):"
        " such a codec costs bytes, seconds and joules, and loses values too"
    ),
    "kept_state": (
        "return what a part remembers through its methods: the memory that a decision returns, or"
        " an algorithm's state memory; values that follow from the part's keys alone do no harm"
    ),
    "out_of_memory": (
        "use a smaller batch_size or model, or other devices; population.memory: null refuses"
        " such runs"
    ),
    "client_errors": (
        "Flower's strategies continue without such clients: fix the ClientApp, unless you study"
        " failures"
    ),
    "masks_are_free": (
        "declare the work of masks in protocol.work.train, or compare with simfl's own"
        " `secure_aggregation`, which prices them"
    ),
    "late_replies": (
        "nothing is wrong if you study stragglers or failures; otherwise raise the app's timeout"
        " (of `strategy.start`, 3600 s by default, or of `send_and_receive`) or its messages' ttl,"
        " use faster devices or less work"
    ),
    "left_out_updates": (
        "nothing is wrong if the strategy drops them (accept_failures=False); if it keeps them"
        " for a later model, that version's participants and staleness omit them"
    ),
    "uncounted_work": (
        "declare the work of such messages (protocol.work.train), unless they computed nothing,"
        " as a client that only adds noise to what it got"
    ),
    "undeclared_work": (
        "declare them as well, per example (traffic_bytes) and per step (update): the page of"
        " Flower apps says how much a model has of each"
    ),
    "machines_clock": (
        "use the log's times of devices in place of what the app measures; give slow devices their"
        " own profile or `compute_noise`, not a sleep"
    ),
    "changing_files": (
        "keep what a node remembers in context.state; or else remove the files before each run, and"
        " let every run train anew (--reuse with a new folder; no --resume)"
    ),
    "ambiguous_figures": (
        "name the metrics in protocol.accuracy and protocol.loss; everything that reads an"
        " accuracy (stop.accuracy, targets, measures) expects a share from 0 to 1"
    ),
    "sized_only": (
        "the figures do not include its cost in accuracy: use a codec that acts on the values"
        " that this algorithm sends, or, if you mean this, set the codec's `values: false` where"
        " it has that key"
    ),
    "starved_rounds": (
        "fewer clients are available than rounds want: use the protocol's wait_for, more clients,"
        " a smaller count, or an availability with more clients"
    ),
    "small_rounds": (
        "smaller rounds cost less and learn less, however good the rule is: with tifl use fewer"
        " tiers, so that each has enough clients for a round, or a smaller count"
    ),
    "large_rounds": (
        "larger rounds cost more and learn more than those of another selection with the same"
        " count: have decide choose at most self.wanted(len(view.clients))"
    ),
    "dispatched_absent": (
        "dispatch those that run.select returns, at once: availability, faults and batteries hold"
        " back only these"
    ),
    "unmerged_updates": (
        "nothing is wrong if the protocol drops them on purpose: wasted_rounds and wasted_active_j"
        " do not count them"
    ),
    "tested_while_training": (
        'evaluate on "validation" (data.validation_share) and keep the test set for the end: a'
        " model chosen by its test accuracy has a too good one"
    ),
    "tested_where_trained": (
        "data.client_test_share keeps some of each client's examples for testing, and figures at"
        " clients are then of these; do not compare the accuracy of such a run with that of a"
        " global model"
    ),
    "untrained_models": (
        "run longer, or select more clients: figures over clients compare such runs by who was"
        " selected"
    ),
    "unpaid_correction": (
        "add its bytes to the price (Algorithm.price: down_bytes, and up_bytes if clients send"
        " theirs), as SCAFFOLD does; nothing is wrong if clients compute it from what they have"
    ),
    "unused_rows": (
        "give every row to a client (by an owner column that names owners, not records), or say"
        " in the study that settings train on different amounts of data"
    ),
    "no_choice": (
        "selections without a choice cannot differ: use the protocol's wait_for above the"
        " selection's count, more clients, or a smaller count; with clients in flight a lower"
        " concurrency, so that several are free"
    ),
    "no_losses": (
        "set needs_losses = True in the class, and clients report the loss of the model that they"
        " got; without it last_loss is NaN for all of them"
    ),
    "mostly_waiting": (
        "compare methods by client_active_j, or by the accuracy at equal versions; another"
        " availability, more clients or a lower wait_for shorten the wait"
    ),
    "crowded_channel": (
        "population.access_sharing (throughput_fair, airtime_fair; for a link with a duty cycle"
        " processor_sharing) shares the channel among the clients of each of population.edges"
        " access points, by capacities and channels only if they are those of the medium; nothing"
        " is wrong if every client has its own access point, as at home, or if an access point has"
        " several channels"
    ),
    "crowded_backhaul": (
        "population.backhaul_sharing: {name: processor_sharing, capacity_bps: ...} is one line for"
        " all clients; nothing is wrong if each client has its own line to the server"
    ),
    "far_access_points": (
        "clients are assigned to access points by number, in equal blocks, so more access points"
        " (population.edges) bring none of them nearer: use decisions.association: nearest in a"
        " hierarchical run, one access point in a flat one, or your own population that sets"
        " home_edge"
    ),
    "priced_for_more": (
        "set algorithm.participants to the number of clients in a round: bytes, seconds and"
        " joules of masks and shares grow with it"
    ),
    "losses_without_noise": (
        "use a selection that needs no losses (random, by_size): the choice of clients, and so"
        " every model, reveals something about clients' data that epsilon does not cover"
    ),
    "selection_without_losses": (
        "use an algorithm that learns, such as fedavg, or a selection that needs no losses"
        " (random, by_size)"
    ),
    "unused_columns": (
        "name them under data.leave_out if you mean this, or under data.categorical or"
        " data.numeric, which must list all columns of their kind"
    ),
    "scattered_columns": (
        "name them under data.leave_out (numbers of records, dates, free text), or give numbers"
        " instead: messages and computation are those of a model with all these inputs"
    ),
    "placeholder_values": (
        "leave these cells empty (for a csv, missing_values takes their text), with missing: drop,"
        " or leave the column out; nothing is wrong if the number is meant"
    ),
    "row_numbers": (
        "name it under data.leave_out (pandas writes its index with to_csv unless index=False);"
        " nothing is wrong if the place in the file is known of new examples, too"
    ),
    "untrained_classes": (
        "use more clients, or a partition that distributes examples of every class (`simfl"
        " partition` shows who has what); accuracies are comparable among runs with the same"
        " clients' data"
    ),
    "labels_with_gaps": (
        "number the classes from 0 on without gaps (numpy.unique(labels, return_inverse=True)):"
        " outputs that are never trained still cost bytes and operations"
    ),
    "one_class": "check the labels: any model that always predicts this label has an accuracy of 1",
    "unlike_test_inputs": (
        "scale training and test inputs alike, by figures of the training inputs: else the test set"
        " is not of the kind that is learned"
    ),
    "tested_on_training_data": (
        "test on other examples: accuracy and loss are otherwise those of examples that were"
        " learned; nothing is wrong if few different inputs exist"
    ),
    "perhaps_classes": (
        "for a classification store whole numbers of an integer type; nothing is wrong if they are"
        " amounts, such as counts or grades"
    ),
    "equal_targets": (
        "use the loss, which is valid, or test on examples with several values; rules that need"
        " an accuracy (stop.accuracy, targets) are never met"
    ),
    "equal_targets_of_clients": (
        "use clients' losses, which are valid (`equity` with `of: loss`); with more examples per"
        " client every client has an R^2"
    ),
    "undefined_indices": (
        "`of: loss`, or a larger `offset` of utilities, has no negative values; worst, mean and"
        " variance remain valid"
    ),
    "few_test_examples": (
        "use more test examples (a larger test_share, a file with more rows): differences between"
        " methods below that width are luck, whatever the number of seeds on the same test set"
    ),
    "left_before": (
        "times of day are those of the day on which the run begins, and later ones are said in"
        " seconds after its midnight; or an earlier population.start_time"
    ),
    "perhaps_misspelt": (
        "rename it, since simfl never calls it; a helper of your own may have any other name, such"
        " as one that begins with an underscore"
    ),
    "unrepeatable": (
        "give generators a seed made from what the part is given (its rng, its data set's seed),"
        " and take the time from the simulation (`view.time_s`), not from this machine's clock"
    ),
    "ended_by_itself": (
        "its figures are of fewer versions or less time than those of runs that reach their stop:"
        " let `process` go on until `publish` returns True"
    ),
    "in_step": (
        "how many clients are present then varies more than among as many real ones: use a trace of"
        " more clients, fewer clients, or availability: {name: renewal, ...} with the trace's means"
    ),
    "nobody_left": (
        "population.start_time is the time of day at simulated time 0, midnight by default; or"
        " let the run last until they leave"
    ),
    "batteries_stay_empty": (
        "use more charge_w or harvest_w in population.batteries, or a lower idle power;"
        " `simfl.battery_levels` shows when they ran empty"
    ),
    "charged_at_other_hours": (
        "the clients' joules (client_energy_j) are right: weigh them by the grid of the hours at"
        " which you charge, and leave out what is harvested"
    ),
    "heat_left_out": (
        "their seconds are too short: give such devices clocks that they can sustain"
        " (frequency_max_hz), or put more epochs into a round, so that heat matters within it"
    ),
    "clocks_out_of_range": (
        "some devices' lowest frequency (frequency_min_hz in clients.parquet) is above the one"
        " that decisions.allocation chooses, so the intended saving is lost there"
    ),
    "no_version": (
        "let the run last longer than a round (stop.time_s), and check availability, deadlines"
        " and faults, unless a Flower app sends no model to train: seconds, joules and bytes are"
        " those of rounds without a result"
    ),
    "unevaluated_end": (
        "use a smaller evaluate.every, or end with stop.versions, whose last version is always"
        " evaluated: time, joules and bytes are those of the whole run, accuracy and loss are not"
    ),
    "loss_above_start": (
        "training makes the model worse: use a smaller algorithm.local.learning_rate or fewer"
        " epochs, unless the test set is meant to differ from the clients' data"
    ),
    "constant_accuracy": (
        "the model does not learn: check the learning rate, the data and the model"
    ),
    "only_guesses": (
        "the model learned nothing, or lost it again: use another algorithm.local.learning_rate"
        " or more versions, unless the test set is meant to differ from the clients' data"
    ),
    "never_took_part": (
        "clients.parquet shows who (participations - dropped = 0): check the selection and"
        " scheduling rules, availability, deadlines and faults; the model has learned from the"
        " other clients only"
    ),
    "meaningless_delta": (
        "use a smaller one, {name: privacy, delta: ...}, well below one over the number of"
        " clients: the same run has a larger epsilon there"
    ),
    "other_coalitions": (
        "compare mean_js_after of runs with equally many coalitions: with fewer, the mean changes"
        " because pairs are missing, whatever the clients hold"
    ),
    "edge_servers_left_out": (
        "use a scheduling rule that reaches all of them (round_robin, fair, fedcure), unless broken"
        " edge servers are the reason; nothing is wrong if you study such a rule"
    ),
    "mostly_lost": (
        "figures by version or target are those of such losses: look at population.message_loss,"
        " availability, faults and batteries, and at rounds that take longer than clients stay"
    ),
    "mostly_late": (
        "use a longer protocol.patience.deadline_s (the log's rows of `late` say by how many"
        " seconds each came too late), late: carry_over, or less work for slow devices"
    ),
    "always_dropped": (
        "a longer protocol.patience.deadline_s, less over_selection, late: carry_over, or less work"
        " for these clients (algorithm.local.partial); accuracy is that of the others' data"
    ),
    "ignored_absences": (
        "population.leaving: abort drops such rounds, and with pause they wait for their clients:"
        " seconds, joules and wasted rounds may be far more; nothing is wrong if clients finish"
        " what they have begun"
    ),
    "mostly_paused": (
        "durations of computing and sending include the pauses, and staleness grows with them:"
        " compare rules by the work that they need, or use a population.availability with longer"
        " stays, less work per round, or population.leaving: abort"
    ),
    "weak_chargers": (
        "set batteries.charge_w (or a group's) to the charger's watts, a higher lowest does not"
        " help; or have fewer clients train while they charge (availability, selection, allocation)"
    ),
    "mostly_given_up": (
        "use a longer protocol.patience.deadline_s, fewer least_updates, a larger count of the"
        " selection, or wait_for more clients"
    ),
    "noticed_at_once": (
        "set population.noticed_after_s to the server's time-out: until then failures make rounds"
        " shorter, so seconds and joules with and without failures are not comparable; methods"
        " under the same failures are"
    ),
    "saturated_queues": (
        "edge servers get less participation than the scheduling rule guarantees them: use fewer"
        " in flight (protocol.concurrency), or a smaller guaranteed share (decisions.scheduling)"
    ),
    "unattainable_participation": (
        "use fewer in flight (protocol.concurrency), or a smaller guaranteed share"
        " (decisions.scheduling)"
    ),
    "target_in_last_version": (
        "one evaluation may be luck: more versions show whether the accuracy or loss stays there"
    ),
    "target_at_once": (
        "a target that takes several evaluations distinguishes methods better; if versions are"
        " evaluated rarely, evaluate them more often (evaluate.every)"
    ),
    "target_missed": (
        "the run's seconds, joules and bytes were spent without reaching the target, which would"
        " take more: use a longer run, another learning rate, or a reachable target"
    ),
    "lost_workers": (
        "the results are right: the lost work was repeated; if workers were given up too soon,"
        " raise --give-up-s"
    ),
    "refused_workers": (
        "the results are those of the other workers; use machines of one kind, or --workers no"
        " larger than their number"
    ),
    "halved_cohorts": (
        "somebody else uses the device, or the memory estimate is too low for this model: the"
        " results are right, unless cohort_dependent says otherwise"
    ),
    "cohort_dependent": (
        "results may differ in their last bits from those of the same scenario on the same"
        " device: if memory is short, use a device that nobody else uses; otherwise --device cpu"
    ),
    "damaged_journal": "the results are right; check the disk",
    "damaged_snapshot": "the results are right; check the disk",
    "damaged_store": "the results are right; check the disk",
}
"""The kinds of warnings, each with advice. docs/warnings.md has the rules."""

BEFALLS = frozenset({"lost_workers", "refused_workers", "halved_cohorts", "cohort_dependent"})
"""Kinds about incidents on the machines that compute. A resumed run does not meet them again, but
continues with values that were computed during them.
"""


@dataclass(frozen=True)
class Notice:
    """A problem that was found `count` times, first at `first_s` (None: at no particular time)."""

    kind: str
    count: int
    first_s: float | None
    message: str
    advice: str

    def as_dict(self) -> dict[str, Any]:
        """As in a manifest."""
        return asdict(self)


def notice(kind: str, message: str, count: int = 1, first_s: float | None = None) -> Notice:
    """A warning of one of the kinds in `ADVICE`."""
    return Notice(kind, count, first_s, message, ADVICE[kind])


def read_notice(content: Any) -> Notice:
    """A warning from a manifest; TypeError for anything else.

    Version 1 of simfl had a single kind of warning, stored as a sentence.
    """
    if isinstance(content, str):
        return notice("unattainable_participation", content)
    found = Notice(**content)
    if not all(isinstance(text, str) for text in (found.kind, found.message, found.advice)):
        raise TypeError("kind, message and advice are text")
    if type(found.count) is not int or type(found.first_s) not in (int, float, type(None)):
        raise TypeError("count is a whole number, first_s a number or null")
    return found


def befallen(notices: Sequence[Notice]) -> list[Notice]:
    """The warnings about incidents on the machines that compute."""
    return [one for one in notices if one.kind in BEFALLS]


def carried(before: Sequence[Notice], now: Sequence[Notice]) -> list[Notice]:
    """The warnings of a resumed run, joined with the incidents `before` it was interrupted."""
    found = {one.kind: one for one in before}
    joined = []
    for one in now:
        if (earlier := found.pop(one.kind, None)) is not None:
            message = "; ".join(dict.fromkeys([earlier.message, one.message]))
            joined.append(replace(one, message=message, count=earlier.count + one.count))
        else:
            joined.append(one)
    return [*joined, *found.values()]
