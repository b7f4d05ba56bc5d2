"""Runs start when those they need are done, the longest first, and keep processes busy."""

import time
from itertools import count

from joblib import parallel_config

from zonkey_lab.paper.bench.schedule import Queue, Rank, Waiting
from zonkey_lab.paper.records import Key

A, B, C, D = (Key("protocol", "data", name) for name in "abcd")


def test_a_run_is_ready_when_the_last_run_that_it_needs_is_done():
    waiting = Waiting({A: (), B: (A,), C: (A, B), D: ()})
    assert waiting.start() == [A, D]
    assert waiting.finish(D) == []
    assert waiting.finish(A) == [B]
    assert waiting.finish(B) == [C]
    assert waiting.finish(C) == []


def test_awaited_runs_start_first_then_the_longest_and_those_of_unknown_length_before():
    queue = Queue(6)
    ranks = {
        "short": Rank(False, 1.0),
        "long": Rank(False, 9.0),
        "awaited": Rank(True, 0.5),
        "unknown": Rank(False, float("inf")),
        "long too": Rank(False, 9.0),
    }
    for name, rank in ranks.items():
        queue.push(name, rank)
    assert len(queue) == 5
    order = ["awaited", "unknown", "long", "long too", "short"]
    assert [queue.pop() for _ in ranks] == order
    assert queue.pop() is None
    assert not queue.is_over
    queue.expect_less()
    assert queue.is_over


def test_work_that_results_bring_is_done_without_a_barrier():
    """What follows a short run starts while a long one still runs."""
    queue, ended, started = Queue(4), [], {}
    numbers = count()

    def execute(work):
        started[work] = next(numbers)
        time.sleep({"long": 1.2}.get(work, 0.01))
        return work

    queue.push("long", Rank(True, 2.0))
    queue.push("short", Rank(True, 1.0))
    with parallel_config("threading"):
        for work in queue.run(execute, 2):
            ended.append(work)
            if work == "short":
                queue.push("next", Rank(False, 1.0))
                queue.expect_less()  # a run that has a record
    assert ended == ["short", "next", "long"]
    assert started["next"] == 2
