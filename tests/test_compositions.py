"""The command that runs random compositions: it goes on where it was, and fails for a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import compositions
from benchmarks.drawn import composition, has_rivals
from tests.books import check_bytes


def lines(out: Path) -> list[dict]:
    """The results in a file."""
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_three_compositions_and_then_what_is_missing(tmp_path, capsys):
    """A line each; a second call runs only what the file lacks, the line that was cut included."""
    out = tmp_path / "runs" / "compositions.jsonl"
    assert compositions.main(["--only", "0", "1", "--out", str(out)]) == 0
    whole = out.read_text()
    out.write_text(whole + '{"number": 2, "outc')

    assert compositions.main(["--count", "3", "--out", str(out)]) == 0

    assert out.read_text().startswith(whole)
    found = lines(out)
    assert [one["number"] for one in found] == [0, 1, 2]
    assert all(one["outcome"] in ("completed", "refused", "stalled") for one in found)
    shown = capsys.readouterr().out
    assert "2 of 3 are known" in shown


def test_a_number_alone_is_the_same_scenario_each_time(tmp_path):
    """With every check, without rivals the comparison too."""
    results = [compositions.result_of(number) for number in (0, 1, 1)]

    assert all("failure" not in one for one in results)
    for key in ("outcome", "checks", "simulated_s", "versions", "protocol", "algorithm"):
        assert results[1].get(key) == results[2].get(key)
    for one in results:
        compared = "ahead equals stepped" in one["checks"]
        rivals = has_rivals(composition(one["number"], tmp_path))
        assert compared == (not rivals and one["outcome"] in ("completed", "stalled"))


def test_a_failure_is_told_with_the_command_that_runs_it_again(tmp_path, monkeypatch, capsys):
    """It is one of the results; the exit code is 1, and 0 once a later run of it is well."""
    out = tmp_path / "compositions.jsonl"

    def broken(run):
        check_bytes(run)
        raise AssertionError("a byte is missing")

    with monkeypatch.context() as patch:
        patch.setattr(compositions, "check_books", broken)
        assert compositions.main(["--only", "0", "--out", str(out)]) == 1
    shown = capsys.readouterr().out
    assert "number 0 failed: AssertionError: a byte is missing" in shown
    assert "python -m benchmarks.compositions --only 0" in shown
    assert lines(out)[0]["outcome"] == "failed"

    assert compositions.main(["--only", "0", "--out", str(out)]) == 0
    assert compositions.main(["--count", "1", "--out", str(out)]) == 0


def test_a_run_of_which_no_report_can_be_made_is_a_failure(monkeypatch):
    """Of every fourth number, whatever became of it."""

    def broken(run, path):
        raise KeyError("accuracy")

    monkeypatch.setattr(compositions, "report_run", broken)

    assert "KeyError: 'accuracy'" in compositions.result_of(0)["failure"]


ALWAYS = {"batteries": None, "availability": "always"}
EMPTY = {**ALWAYS, "batteries": {"charge_w": 0.0}}
WAITS = "Stalled: stalled at 1 s: the server waits for one of 3 clients to become available"


@pytest.mark.parametrize(
    ("reason", "population"),
    [
        ("Stalled: stalled at 1 s: nothing is waited for", EMPTY),
        ("Stalled: it stalled", EMPTY),
        (WAITS, ALWAYS),
        (WAITS, {**ALWAYS, "availability": {"name": "periodic", "period_s": 1.0, "share": 0.1}}),
    ],
)
def test_a_stall_needs_a_reason(reason, population):
    """The message names the waits, and something must keep clients away for good."""
    with pytest.raises(AssertionError):
        compositions.check_stall(reason, population)


def test_stalls_with_reasons():
    """Empty batteries; rounds without an update, whichever clients are available."""
    compositions.check_stall(WAITS, EMPTY)
    compositions.check_stall("Stalled: 1000 rounds in a row brought no update: ...", ALWAYS)
