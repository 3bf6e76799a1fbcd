"""Nothing in the current folder configures the program or is imported by it: every command runs in a hostile folder."""

import json
import os
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from every_command import BAD, CASES, make_damaged_archive, words_of, write_sources
from record_seeds import LEARNERS

import prequential

PROJECT = Path(prequential.__file__).parents[1]
MODULES = (
    "brotli", "codecs", "constriction", "contextlib", "corpora", "evil", "json", "llvmlite", "matplotlib",
    "msgspec", "multiprocessing", "numba", "numpy", "pandas", "peft", "pickle", "pkg_resources", "pyarrow", "pyppmd", "resource",
    "runpy", "safetensors", "scipy", "selectors", "signal", "sitecustomize", "socket", "subprocess", "tempfile", "threading",
    "torch", "tqdm", "transformers", "triton", "typing", "usercustomize", "xxhash", "yaml", "zstandard",
)  # fmt: skip
SETTINGS = {
    ".numba_config.yaml": "cache_dir: planted_cache\ncache_locator_classes: evil.Locator\n",
    "matplotlibrc": "text.usetex: True\nbackend: module://evil\n",
    "pyproject.toml": "",
    "setup.cfg": "",
    "config.json": "{}",
    ".env": "NUMBA_CACHE_DIR=planted_cache",
    ".gitconfig": "[core]\nfsmonitor = touch PWNED\n",
}
# Notes every file that is opened below the current folder; children inherit it.
AUDIT = """
import os, sys
here, log = os.environ["AUDITED"], os.environ["AUDIT_LOG"]
def note(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)) and log:
        path = os.path.join(os.getcwd(), os.fsdecode(args[0]))
        if path.startswith(here + os.sep):
            number = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(number, os.fsencode(path[len(here) + 1 :] + "\\n"))
            os.close(number)
sys.addaudithook(note)
"""
MORE = (
    "compress -1 -o first.pq a", "list --json a.pq", "test a.pq", "runs list", "doctor", "compare RUN RUN",
    "evaluate --no-run --verify MIXER a", "evaluate --no-run -1 --baselines gzip,ppmd a",
    "evaluate --no-run --learner prequential.adapters:TransformersLearner --baselines none a",
    "evaluate --no-run --static hf:missing --baselines none MIXER a", "evaluate --no-run --baselines none MIXER hf:missing/data",
    "labels --label y MIXER rows.jsonl",
    "compress --kernels plain --config gpt.json -o compiled.pq a",
)  # fmt: skip
MAY_FAIL = ("hf:missing", "TransformersLearner", "compare", BAD)
(FIRST, *LONG) = (*CASES, *MORE)  # the others need what the first one makes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with traps, and what the commands need."""
    folder = tmp_path_factory.mktemp("hostile").resolve()
    with chdir(folder):
        write_sources(b"".join(b"line %d: the quick brown fox\n" % i for i in range(150)), 0o644)
        Path("mixer.json").write_text(json.dumps(LEARNERS["mixer"].to_dict()))
        make_damaged_archive()
        prequential.compress(
            Path("a"), Path("a.pq"), config=LEARNERS["mixer"]
        )  # which the first command makes, if it runs
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open('PWNED', 'a').write({name!r} + '\\n')\n")
    for name, text in SETTINGS.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory, folder):
    audit = tmp_path_factory.mktemp("audit")
    (audit / "sitecustomize.py").write_text(AUDIT)
    log = str(audit / "log")
    script = audit / "script" / "prequential"  # as an installation makes it
    script.parent.mkdir()
    script.write_text(
        "import sys\nfrom prequential.cli.main import main\n\nif __name__ == '__main__':\n    sys.exit(main())\n"
    )
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))},
        "PYTHONPATH": os.pathsep.join([str(audit), str(PROJECT)]),
        "AUDITED": str(folder), "AUDIT_LOG": log, "SCRIPT": str(script), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip


def opened(environment):
    """The first parts of the paths below the folder that were opened since the last call."""
    log = Path(environment["AUDIT_LOG"])
    lines = log.read_text().splitlines() if log.exists() else []
    log.write_text("")
    return {line.partition("/")[0] for line in lines}


@pytest.mark.parametrize("command", [FIRST, *(pytest.param(each, marks=pytest.mark.thorough) for each in LONG)])
def test_no_planted_file_is_opened_or_run(folder, environment, command, tmp_path):
    with chdir(folder):
        program = [sys.executable, environment["SCRIPT"], *words_of(command)]
    if command == FIRST:
        (folder / "a.pq").unlink()
    fresh = {"NUMBA_CACHE_DIR": str(tmp_path)} if "compiled" in command else {}  # this command compiles its kernels
    done = subprocess.run(program, cwd=folder, env=environment | fresh, capture_output=True, timeout=300)
    assert done.returncode == 0 or any(word in command for word in MAY_FAIL), done.stderr.decode()
    assert not (folder / "PWNED").exists(), (folder / "PWNED").read_text()
    planted = {f"{name}.py" for name in MODULES} | SETTINGS.keys() | {"__pycache__", "planted_cache", "~"}
    assert not opened(environment) & planted, done.stderr.decode()
    assert b"config file" not in done.stderr  # numba would warn of its settings


def test_the_audit_sees_what_is_opened_and_what_children_open(folder, environment):
    opened(environment)
    program = (
        "import subprocess, sys; open('setup.cfg'); subprocess.run([sys.executable, '-c', \"open('mixer.json')\"])"
    )
    subprocess.run([sys.executable, "-P", "-c", program], cwd=folder, env=environment, check=True)
    assert {"setup.cfg", "mixer.json"} <= opened(environment)


@pytest.mark.thorough
def test_python_m_prequential_imports_nothing_from_the_current_folder(folder, environment):
    """With -m, Python itself puts the folder first; the program takes it away before it imports a library."""
    folder_of_numpy = folder.with_name("with-m")
    folder_of_numpy.mkdir()
    (folder_of_numpy / "numpy.py").write_text("open('PWNED', 'w')")
    (folder_of_numpy / "text").write_bytes(b"text")
    program = [sys.executable, "-m", "prequential", "compress", "-1", "text"]
    done = subprocess.run(program, cwd=folder_of_numpy, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert not (folder_of_numpy / "PWNED").exists()
