"""Nothing in the current folder configures the program or is imported by it: every command runs in a hostile folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import git_history
import pytest
from seeds import MIXER
from studies import TINY

import prequential
from prequential.evaluation.runs import read_runs

PROJECT = Path(prequential.__file__).parents[1]
FORECASTS = PROJECT / "benchmarks" / "forecasts" / "enwik8-contexts"
MODULES = (
    "brotli", "codecs", "contextlib", "corpora", "evil", "json", "llvmlite", "matplotlib",
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
LONG = (
    "decompress a.pq -o b", "test a.pq", "list --json a.pq", "evaluate --runs runs --verify --baselines gzip,ppmd MIXER a",
    "runs list runs", "report RUN -o page.html", "compare RUN RUN", "train a -o model GPT",
    "import log.csv --tokens seen --loss loss --bytes-per-token 4", "heldout --train model --test a --runs held",
    "labels --label y MIXER rows.jsonl", "monorepo repo --since HEAD~1 --series mono.jsonl MIXER",
    "sweep --ladder a --runs ladder --limit 600 --sizes 16x1 --seeds 0 GPT",
    "forecast ladder.jsonl --target-width 512 --target-bytes 200M -o forecast.json", "doctor", "compress -1 -o first.pq a",
    "evaluate --no-run --learner prequential.adapters:TransformersLearner --baselines none a",
    "evaluate --no-run --static hf:missing --baselines none MIXER a",
    "evaluate --no-run --baselines none MIXER hf:missing/data", "compress --kernels plain GPT -o compiled.pq a",
)  # fmt: skip
MAY_FAIL = ("hf:missing", "TransformersLearner", "compare")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with traps, and what the commands need."""
    folder = tmp_path_factory.mktemp("hostile").resolve()
    (folder / "a").write_bytes(text := b"".join(b"line %d: the quick brown fox\n" % i for i in range(70)))
    (folder / "mixer.json").write_text(json.dumps(MIXER.to_dict()))
    (folder / "gpt.json").write_text(json.dumps(TINY.to_dict()))
    (folder / "log.csv").write_text("seen,loss\n100,3.5\n200,2.5\n")
    rows = [{"t": f"a row with number {i}", "y": "odd" if i % 2 else "even"} for i in range(20)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.copy(FORECASTS / "ladder.jsonl.zst", folder / "ladder.jsonl")
    git_history.make(folder / "repo", {1: {b"a.py": text[:600]}, 2: {b"b.py": text[600:1200]}})
    prequential.compress(folder / "a", folder / "a.pq", config=MIXER)
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open('PWNED', 'a').write({name!r} + '\\n')\n")
    for name, setting in SETTINGS.items():
        (folder / name).write_text(setting)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory, folder):
    audit = tmp_path_factory.mktemp("audit")
    (audit / "sitecustomize.py").write_text(AUDIT)
    script = audit / "script" / "prequential"  # as an installation makes it
    script.parent.mkdir()
    script.write_text("import sys\nfrom prequential.cli.main import main\n\nsys.exit(main())\n")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))},
        "PYTHONPATH": os.pathsep.join([str(audit), str(PROJECT)]), "AUDITED": str(folder), "AUDIT_LOG": str(audit / "log"),
        "SCRIPT": str(script), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip


def opened(environment):
    """The first parts of the paths below the folder that were opened since the last call."""
    log = Path(environment["AUDIT_LOG"])
    lines = log.read_text().splitlines() if log.exists() else []
    log.write_text("")
    return {line.partition("/")[0] for line in lines}


@pytest.mark.parametrize("command", ["compress a -o c.pq MIXER", *LONG])
@pytest.mark.first_quick
def test_no_planted_file_is_opened_or_run(folder, environment, command, tmp_path):
    words = command.replace("MIXER", "--config mixer.json").replace("GPT", "--config gpt.json")
    if "RUN" in words.split():
        (run,) = read_runs(folder / "runs")
        words = words.replace("RUN", str(run.path))
    fresh = {"NUMBA_CACHE_DIR": str(tmp_path)} if "compiled" in command else {}  # this command compiles its kernels
    program = [sys.executable, environment["SCRIPT"], *words.split()]
    done = subprocess.run(program, cwd=folder, env=environment | fresh, capture_output=True, timeout=300)
    assert done.returncode == 0 or any(word in command for word in MAY_FAIL), done.stderr.decode()
    assert not (folder / "PWNED").exists(), (folder / "PWNED").read_text()
    planted = {f"{name}.py" for name in MODULES} | SETTINGS.keys() | {"__pycache__", "planted_cache", "~"}
    assert not opened(environment) & planted, done.stderr.decode()
    assert b"config file" not in done.stderr  # numba would warn of its settings


def test_the_audit_sees_what_is_opened_and_what_children_open(folder, environment):
    opened(environment)
    child = "import subprocess, sys; open('setup.cfg'); subprocess.run([sys.executable, '-c', \"open('mixer.json')\"])"
    subprocess.run([sys.executable, "-P", "-c", child], cwd=folder, env=environment, check=True)
    assert {"setup.cfg", "mixer.json"} <= opened(environment)


@pytest.mark.thorough
def test_python_m_prequential_imports_nothing_from_the_current_folder(tmp_path, environment):
    """With -m, Python itself puts the folder first; the program takes it away before it imports a library."""
    (tmp_path / "numpy.py").write_text("open('PWNED', 'w')")
    (tmp_path / "text").write_bytes(b"text")
    program = [sys.executable, "-m", "prequential", "compress", "-1", "text"]
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert not (tmp_path / "PWNED").exists()
