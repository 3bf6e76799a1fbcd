"""What a run restores in its process."""

import os
import signal
import threading

import pytest

from prequential.machine.process import held


def test_a_run_that_another_thread_collects_holds_no_signal_any_more() -> None:
    def run():
        with held():
            yield

    before = signal.getsignal(signal.SIGINT)
    left = run()
    next(left)
    thread = threading.Thread(target=left.close)
    thread.start()
    thread.join()
    try:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
