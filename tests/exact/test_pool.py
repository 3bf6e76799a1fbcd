"""Threads that share the pieces of a step: each piece runs once, by whichever thread is free, and errors arrive."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from prequential.exact.pool import Pool

POOLS = [(1, False), (2, False), (2, True), (3, True), (4, False)]


@pytest.mark.parametrize(("n_threads", "with_helper"), POOLS)
def test_each_piece_runs_once(n_threads, with_helper):
    pool, seen = Pool(n_threads, with_helper=with_helper), []
    pool.map(seen.append, range(20))
    pool.map(seen.append, [])
    assert sorted(seen) == list(range(20))


@pytest.mark.parametrize(("n_threads", "with_helper"), POOLS)
def test_the_first_error_is_raised_after_all_pieces_have_run(n_threads, with_helper):
    pool, seen = Pool(n_threads, with_helper=with_helper), []

    def work(i):
        seen.append(i)
        if i in (3, 5):
            raise ValueError(f"piece {i}")

    with pytest.raises(ValueError, match="piece 3"):
        pool.map(work, range(8))
    assert sorted(seen) == list(range(8))


def test_a_helper_computes_pieces_while_a_thread_waits():
    pool, helped = Pool(2, with_helper=True), Event()
    with ThreadPoolExecutor(1) as thread:
        step = thread.submit(pool.map, lambda i: helped.set() if i else helped.wait(10), [0, 1])
        pool.wait_for(step)
    assert helped.is_set()


def test_a_helper_raises_the_error_of_the_step_and_can_help_again():
    pool = Pool(2, with_helper=True)
    with ThreadPoolExecutor(1) as thread:
        with pytest.raises(ZeroDivisionError):
            pool.wait_for(thread.submit(pool.map, lambda i: i / 0, [1]))
        pool.wait_for(thread.submit(pool.map, lambda i: None, [1, 2, 3]))


@pytest.mark.parametrize(("n_threads", "with_helper"), POOLS)
def test_rows_are_cut_for_the_threads_that_have_no_other_work(n_threads, with_helper):
    pieces = Pool(n_threads, with_helper=with_helper).pieces(7)
    assert [i for piece in pieces for i in range(7)[piece]] == list(range(7))
    assert len(pieces) == n_threads - with_helper
