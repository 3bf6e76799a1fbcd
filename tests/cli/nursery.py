"""Runs commands of the program, each in a new process forked from this one, which has imported the program once.

A line of JSON on stdin gives the folder, the arguments, and files for the streams; a line on stdout gives the exit code. Starting
Python and importing torch takes some two seconds, a fork some milliseconds; this process has coded once and has its kernels.
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
        for number, (name, flags) in enumerate(
            ((os.devnull, os.O_RDONLY), (stdout, os.O_WRONLY), (stderr, os.O_WRONLY))
        ):
            file = os.open(name, flags | (os.O_APPEND if number else 0))
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
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    mixer = prequential.MixerConfig(
        contexts=("1", "2"), table_bits=8, match_bits=8
    )  # of the small learner (conftest.py)
    runtime = prequential.Runtime(kernels="fused")
    archive = prequential.compress(b"text" * 100, config=prequential.Config(gpt=None, mixer=mixer), runtime=runtime)
    prequential.decompress(archive, runtime=runtime)
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            child(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
