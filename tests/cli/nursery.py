"""Runs commands of the program, each in a new process forked from this one, which has imported the program once.

A line of JSON on stdin gives the folder, the arguments, and files for the streams; a line on stdout gives the exit code. Starting
Python and importing torch takes some two seconds, a fork some milliseconds. This process has coded once, so each fork has the
compiled kernels: the first archive of a process takes a second, the next ones some milliseconds.
"""

import json
import os
import sys
import traceback

import prequential
import prequential.evaluation.evaluation
from prequential.cli.main import main
from prequential.online import selftest  # noqa: F401 - for the children


def child(folder: str, args: list[str], stdout: str, stderr: str) -> None:
    """Never returns."""
    code = 1
    try:
        os.chdir(folder)
        for name, flags, number in (
            (os.devnull, os.O_RDONLY, 0),
            (stdout, os.O_WRONLY | os.O_APPEND, 1),
            (stderr, os.O_WRONLY | os.O_APPEND, 2),
        ):
            file = os.open(name, flags)
            os.dup2(file, number)
            os.close(file)
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, closefd=False)  # by lines, as it is
        sys.argv = ["prequential", *args]
        code = main(args)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                code = code or 1
        os._exit(code)


def code_once() -> None:
    """Loads the kernels of the small learner (conftest.py)."""
    mixer = prequential.MixerConfig(contexts=("1", "2"), table_bits=8, match_bits=8)
    runtime = prequential.Runtime(kernels="fused")
    archive = prequential.compress(b"text" * 100, config=prequential.Config(gpt=None, mixer=mixer), runtime=runtime)
    prequential.decompress(archive, runtime=runtime)


if __name__ == "__main__":
    code_once()
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            child(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
