"""Threads that share the pieces of a step: each piece runs once, by whichever thread is free, and errors arrive."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event, get_ident

import pytest

from prequential.exact.pool import Pool

POOLS = [(1, False), (2, False), (2, True), (3, True), (4, False)]


@pytest.mark.parametrize(("n_threads", "with_helper"), POOLS)
def test_each_piece_runs_once(n_threads, with_helper):
    pool, seen = Pool(n_threads, with_helper=with_helper), []
    pool.map(seen.append, range(20))
    for i in range(20, 40):
        pool.start(partial(seen.append, i))
    pool.finish()
    assert sorted(seen) == list(range(40))


@pytest.mark.parametrize(("n_threads", "with_helper"), POOLS)
def test_the_first_error_is_raised_after_all_pieces_have_run(n_threads, with_helper):
    pool, seen = Pool(n_threads, with_helper=with_helper), []

    def work(i):
        seen.append(i)
        if i in (3, 5):
            raise ValueError(f"piece {i}")

    with pytest.raises(ValueError, match="piece 3"):
        pool.map(work, range(8))
    if n_threads > 1:
        assert sorted(seen) == list(range(8))
        for i in range(8, 12):
            pool.start(partial(work, i))
        pool.start(partial(work, 5))
        with pytest.raises(ValueError, match="piece 5"):
            pool.finish()


def step_of_two_pieces(pool, may_finish, by):
    for _ in range(2):
        pool.start(lambda: by.append(get_ident()))
    may_finish.wait(10)
    pool.finish()


def test_the_waiting_thread_computes_pieces():
    pool, may_finish, by = Pool(2, with_helper=True), Event(), []
    with ThreadPoolExecutor(1) as thread:
        step = thread.submit(step_of_two_pieces, pool, may_finish, by)
        helped = ThreadPoolExecutor(1).submit(pool.wait_for, step)
        while len(by) < 2:  # the step's thread waits, so the helper has to run both
            assert not helped.done()
        may_finish.set()
        helped.result(10)
    assert len(set(by)) == 1


def test_a_helper_raises_the_error_of_the_step_and_can_help_again():
    pool = Pool(2, with_helper=True)

    def fails():
        pool.start(lambda: 1 / 0)
        pool.finish()

    with ThreadPoolExecutor(1) as thread:
        with pytest.raises(ZeroDivisionError):
            pool.wait_for(thread.submit(fails))
        pool.wait_for(thread.submit(pool.map, lambda i: None, [1, 2, 3]))


@pytest.mark.parametrize(("n_threads", "with_helper"), POOLS)
def test_rows_are_cut_for_the_threads_that_have_no_other_work(n_threads, with_helper):
    pieces = Pool(n_threads, with_helper=with_helper).pieces(7)
    assert [i for piece in pieces for i in range(7)[piece]] == list(range(7))
    assert len(pieces) == n_threads - with_helper


def test_pieces_that_are_done_are_not_kept():
    pool = Pool(2, with_helper=True)
    for _ in range(50):
        pool.start(lambda: None)
        pool.finish()
    assert pool._helper.pieces.qsize() == 0


AT_EXIT = """
import atexit, threading, time
atexit.register(lambda: print([t.name for t in threading.enumerate() if t is not threading.main_thread()]))  # is called last
from prequential.exact.pool import Pool
pool = Pool(2, with_helper=True)
pool._helper.gate.set()
pool.start(lambda: time.sleep(0.5))
time.sleep(0.1)
"""


def test_the_helper_has_ended_when_the_interpreter_ends():
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
