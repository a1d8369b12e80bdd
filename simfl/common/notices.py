"""What a run warns of: one record per kind, with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

ADVICE = {
    "unverified_figures": (
        "`simfl list devices -v` (links, servers) names them; measured ones go into profiles of"
        " one's own (population.profiles). Differences between runs on the same machines are"
        " sounder than absolute seconds and joules"
    ),
    "implausible_figures": (
        "look at the unit that the key ends in: watts, hertz, bytes, bits per second, seconds. The"
        " run takes figures as they stand, and seconds and joules go by them"
    ),
    "beyond_calibration": (
        "the profile's seconds are an extrapolation: measure such rows too (`simfl measure`), and"
        " calibrate anew"
    ),
    "unread_keys": (
        "take them out of the scenario, or choose the parts that read them: the run is the same"
        " with and without"
    ),
    "shared_generators": (
        "parts take random numbers from what they are given (the rng of a decision, a partition or"
        " a measure, a data set's seed, a codec's generator, Streams): then the same scenario and"
        " seed are the same run, and comparisons have common random numbers"
    ),
    "larger_messages": (
        "a smaller share, fewer bits, or positions told in another way (`simfl show top_k`): such a"
        " codec costs bytes, seconds and joules, and loses values too"
    ),
    "kept_state": (
        "what a part remembers goes through its methods: the memory that a decision returns, a"
        " state's memory of an algorithm; nothing is wrong with what follows from its keys alone"
    ),
    "out_of_memory": (
        "a smaller batch_size or model, or other devices; population.memory: null refuses such runs"
    ),
    "client_errors": (
        "Flower's strategies go on without such clients: mend the ClientApp, unless failures are"
        " what is studied"
    ),
    "masks_are_free": (
        "declare what masks take in protocol.work.train, or compare with simfl's own"
        " `secure_aggregation`, which prices them"
    ),
    "left_out_updates": (
        "nothing is wrong where the strategy drops them (accept_failures=False); where it keeps"
        " them for a later model, participants and staleness of that version are not those"
    ),
    "uncounted_work": (
        "declare what such messages take (protocol.work.train), unless they computed nothing, as a"
        " client that only adds noise to what it got"
    ),
    "doubtful_figures": (
        "name the metrics that are meant, as protocol.accuracy and protocol.loss; whatever reads an"
        " accuracy (stop.accuracy, targets, measures) takes it for a share from 0 to 1"
    ),
    "sized_only": (
        "its cost in accuracy is not in the figures: take a codec that acts on the values that this"
        " algorithm sends, or say `values: false` where that is meant"
    ),
    "starved_rounds": (
        "fewer clients are present than rounds want: the protocol's wait_for, more clients, a"
        " smaller count, or an availability under which more of them come"
    ),
    "small_rounds": (
        "smaller rounds cost less and teach less, whatever the rule is worth: under tifl fewer"
        " tiers, so that each has as many clients as a round is to have, or a smaller count"
    ),
    "no_choice": (
        "selections that have no choice cannot differ: the protocol's wait_for above the"
        " selection's count, more clients, or a smaller count; with clients in flight a lower"
        " concurrency, so that several are free"
    ),
    "no_losses": (
        "needs_losses = True in the class has clients report the loss of the model that they got;"
        " without it last_loss is NaN for all of them"
    ),
    "mostly_waiting": (
        "compare methods at equal versions or by client_active_j; another availability, more"
        " clients or a lower wait_for shorten the wait"
    ),
    "crowded_channel": (
        "population.access_sharing (throughput_fair, airtime_fair; of a link with a duty cycle"
        " processor_sharing) shares it among the clients"
        " of each of population.edges access points; nothing is wrong where every client has one of"
        " its own, as at home"
    ),
    "far_access_points": (
        "clients belong to access points by their numbers, in equal blocks, so that more access"
        " points (population.edges) bring none of them nearer: use decisions.association: nearest"
        " in a hierarchical run, one access point in a flat one, or a population of your own that"
        " says home_edge"
    ),
    "priced_for_more": (
        "set algorithm.participants to how many clients a round has: bytes, seconds and joules of"
        " masks and shares grow with it"
    ),
    "losses_in_the_open": (
        "a selection that asks for no losses (random, by_size): who is chosen, and so every model,"
        " tells of clients' data what epsilon does not count"
    ),
    "unused_columns": (
        "name them under data.leave_out where that is meant, or under data.categorical or"
        " data.numeric: a list there has all columns of its kind"
    ),
    "untrained_classes": (
        "more clients, or a partition that deals out examples of every class (`simfl partition`"
        " shows who has what); accuracies are comparable among runs with the same clients' data"
    ),
    "labels_with_gaps": (
        "number the classes from 0 on without gaps (numpy.unique(labels, return_inverse=True)):"
        " outputs that nothing trains cost bytes and operations all the same"
    ),
    "one_class": (
        "look at the labels: an accuracy of 1 is what any model has that never says anything else"
    ),
    "equal_targets": (
        "the loss is sound: go by it, or test with examples of several values; whatever goes by an"
        " accuracy (stop.accuracy, targets) is never met"
    ),
    "equal_targets_of_clients": (
        "clients' losses are sound (`equity` with `of: loss`); a partition that deals out more"
        " examples to each gives every client an R^2"
    ),
    "no_indices": (
        "`of: loss`, or a larger `offset` of utilities, has no negative values; worst, mean and"
        " variance are sound"
    ),
    "few_test_examples": (
        "more test examples (a larger test_share, a file of more rows): differences between methods"
        " below that width are luck, whatever the number of seeds on the same test set"
    ),
    "left_before": (
        "times of day are those of the day on which the run begins, and later ones are said in"
        " seconds after its midnight; or an earlier population.start_time"
    ),
    "nobody_left": (
        "population.start_time is the time of day at simulated time 0, midnight by default; or let"
        " the run last until they leave"
    ),
    "empty_for_good": (
        "more charge_w or harvest_w in population.batteries, or a lower idle power; from when on"
        " they were missing stands in `simfl.battery_levels`"
    ),
    "other_hours": (
        "the clients' joules (client_energy_j) are right: weigh them by the grid of the hours at"
        " which you charge, and leave out what is harvested"
    ),
    "heat_left_out": (
        "take their seconds for too short: give such devices the clocks that they keep up for hours"
        " (frequency_max_hz), or put more epochs into a round, so that heat counts within it"
    ),
    "clocks_out_of_range": (
        "some devices' lowest frequency (frequency_min_hz in clients.parquet) is above what"
        " decisions.allocation decides: what it was to save there is not saved"
    ),
    "no_version": (
        "let the run last longer than a round takes (stop.time_s), and look at availability,"
        " deadlines and faults: seconds, joules and bytes are those of rounds that led to nothing"
    ),
    "loss_above_start": (
        "training makes the model worse: a smaller algorithm.local.learning_rate or fewer epochs,"
        " unless the test set is meant to differ from what clients hold"
    ),
    "constant_accuracy": (
        "the model does not learn: look at the learning rate, the data and the model"
    ),
    "only_guesses": (
        "the model learned nothing, or lost it again: another algorithm.local.learning_rate, more"
        " versions, unless the test set is meant to differ from what clients hold"
    ),
    "never_took_part": (
        "clients.parquet says who (participations 0), and the log's rows of `late` who was not"
        " waited for: look at the selection and scheduling rules, at availability, deadlines and"
        " faults; what the model knows, it knows from the others"
    ),
    "meaningless_delta": (
        "a smaller one, {name: privacy, delta: ...}, well below one over the number of clients: the"
        " same run has a larger epsilon there"
    ),
    "other_coalitions": (
        "compare mean_js_after of runs with as many coalitions: with fewer the mean falls or"
        " rises by the pairs that are gone, whatever the clients hold"
    ),
    "edge_servers_left_out": (
        "a scheduling that comes round to all of them (round_robin, fair, fedcure); nothing is"
        " wrong where it is such a rule that is studied"
    ),
    "mostly_late": (
        "a longer protocol.patience.deadline_s (the log's rows of `late` say by how many seconds"
        " each came too late), late: carry_over, or less work for slow devices"
    ),
    "saturated_queues": (
        "edge servers get less participation than the scheduling rule owes them: fewer in flight"
        " (protocol.concurrency), or a smaller share owed (decisions.scheduling)"
    ),
    "unattainable_participation": (
        "fewer in flight (protocol.concurrency), or a smaller share owed (decisions.scheduling)"
    ),
    "target_in_last_version": (
        "one evaluation may be luck: more versions say whether the target is held"
    ),
    "target_at_once": (
        "a target that takes several evaluations to meet tells methods apart; where versions are"
        " evaluated rarely, evaluate them more often (evaluate.every)"
    ),
    "target_missed": (
        "the run's seconds, joules and bytes are what it spent without getting there, and less than"
        " it would take: a longer run, another learning rate, or a target that can be met"
    ),
    "lost_workers": (
        "nothing is wrong with the results: what they did was done again; where they were given up"
        " too soon, --give-up-s"
    ),
    "refused_workers": (
        "results are those of the others; machines of one kind, or --workers no more than there are"
        " of it"
    ),
    "halved_cohorts": (
        "somebody else uses the device, or the count misses what the model holds: nothing is wrong"
        " with the results, unless company_may_show says so"
    ),
    "company_may_show": (
        "results may differ in their last bits from those of the same scenario on the same device:"
        " a device that nobody else uses, where it is for want of memory; else --device cpu"
    ),
    "damaged_journal": "nothing is wrong with the results; look after the disk",
    "damaged_snapshot": "nothing is wrong with the results; look after the disk",
    "damaged_store": "nothing is wrong with the results; look after the disk",
}
"""Every kind of warning, and what to do about it. The rules stand in docs/warnings.md."""

BEFALLS = frozenset({"lost_workers", "refused_workers", "halved_cohorts", "company_may_show"})
"""Kinds that say what befell machines. A run that is resumed does not meet it again, and goes on
with values that were computed by them."""


@dataclass(frozen=True)
class Notice:
    """Something odd that was found `count` times, first at `first_s` (None: it has no moment)."""

    kind: str
    count: int
    first_s: float | None
    message: str
    advice: str

    def as_dict(self) -> dict[str, Any]:
        """As it stands in a manifest."""
        return asdict(self)


def notice(kind: str, message: str, count: int = 1, first_s: float | None = None) -> Notice:
    """A warning of one of the kinds of `ADVICE`."""
    return Notice(kind, count, first_s, message, ADVICE[kind])


def read_notice(content: Any) -> Notice:
    """A warning as it stands in a manifest; TypeError for anything else.

    Version one of simfl warned of one thing, in a sentence.
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
    """Those that say what befell machines."""
    return [one for one in notices if one.kind in BEFALLS]


def carried(before: Sequence[Notice], now: Sequence[Notice]) -> list[Notice]:
    """The warnings of a resumed run, and with them what befell it `before` it was cut off."""
    found = {one.kind: one for one in before}
    joined = []
    for one in now:
        if (earlier := found.pop(one.kind, None)) is not None:
            message = "; ".join(dict.fromkeys([earlier.message, one.message]))
            joined.append(replace(one, message=message, count=earlier.count + one.count))
        else:
            joined.append(one)
    return [*joined, *found.values()]
