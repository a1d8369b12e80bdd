"""When a question that is asked again means that a server waits."""

from __future__ import annotations

from simfl.bridges.polling import Polls


def test_time_stands_still_for_a_few_equal_questions() -> None:
    """The same question with the same answer is free so often, and then it waits."""
    polls = Polls()

    assert [polls.stands_still("nodes", [1], free=2) for _ in range(3)] == [False, False, True]


def test_another_answer_or_a_change_begins_anew() -> None:
    """And other questions between them do not."""
    polls = Polls()
    polls.stands_still("nodes", [1], free=1)

    assert not polls.stands_still("nodes", [1, 2], free=1)
    assert not polls.stands_still("replies", [], free=1)
    assert polls.stands_still("nodes", [1, 2], free=1)
    polls.changed()
    assert not polls.stands_still("nodes", [1, 2], free=1)


def test_after_time_has_moved_the_next_question_moves_it_again() -> None:
    """A server that goes on polling costs one question per event."""
    polls = Polls()
    polls.moved("nodes", [1], free=3)

    assert polls.stands_still("nodes", [1], free=3)
