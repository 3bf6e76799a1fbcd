"""Nothing in the current folder configures the program or is imported by it: every command runs in a hostile folder."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import prequential

PROJECT = Path(prequential.__file__).parents[1]
CONFIG = prequential.Config(
    gpt=prequential.GPTConfig(n_layers=1, width=16, n_heads=1, window=16),
    mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=8, match_bits=8),
    schedule=prequential.ScheduleConfig(history_bits=14, block_symbols=1024),
)
MODULES = (
    "brotli", "codecs", "constriction", "contextlib", "corpora", "datasets", "evil", "json", "llvmlite", "matplotlib",
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
COMMANDS = [
    "compress --config small.cfg -o new.pq text",
    "compress -1 -o first.pq text",
    "list --json text.pq",
    "test text.pq",
    "decompress -o copy text.pq",
    "evaluate --config small.cfg --verify text",
    "evaluate -1 --baselines gzip,ppmd text",
    "evaluate --config small.cfg --no-run --output records.jsonl --baselines gzip text",
    "evaluate --estimate --config small.cfg text",
    "evaluate --learner prequential.adapters:TransformersLearner --baselines none --no-run text",
    "evaluate --static hf:missing --config small.cfg --baselines none --no-run text",
    "evaluate --config small.cfg --baselines none --no-run hf:missing/data",
    "decompose --config gpt.cfg text",
    "labels --config small.cfg --label y rows",
    "heldout --config small.cfg --train other --test text --no-run",
    "monorepo --config small.cfg --since HEAD~1 --picture series.svg --series series.jsonl repository",
    "compare RUNS",
    "runs list",
    "runs pack -o packed.jsonl runs",
    "report -o page.html RUNS",
    "report --plots plots RUNS",
    "sweep --config small.cfg --seeds 0,1 --runs swept text",
    "sweep --ladder --config small.cfg --sizes 16x1,16x2,32x1,32x2 --runs steps text",
    "forecast steps --target-width 64 --target-layers 1 --target-bytes 2800 -o forecast.json",
    "forecast scored --score forecast.json --corpus text",
    "ablate --config small.cfg --sizes 16x1 --features mixer --runs ablated text",
    "matrix --config small.cfg --picture matrix.png text other",
    "train --config small.cfg -o model text",
    "train --export exported model",
    "doctor",
    "estimate --config small.cfg --probe 1000 text",
    "doctor --config small.cfg --samples 1 --law text",
    "compress --kernels plain --config gpt.cfg -o compiled.pq text",
]
QUICK = ("compress --config small.cfg -o new.pq text",)
GIT = """git init -q repository && cd repository && seq 300 > a.py && git add . &&
git -c user.name=a -c user.email=a@b commit -q -m 1 && seq 400 > b.py && git add . &&
git -c user.name=a -c user.email=a@b commit -q -m 2"""
MAY_FAIL = ("hf:missing", "TransformersLearner", "--score")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with traps, and what the commands need."""
    folder = tmp_path_factory.mktemp("hostile").resolve()
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open('PWNED', 'a').write({name!r} + '\\n')\n")
    for name, text in SETTINGS.items():
        (folder / name).write_text(text)
    (folder / "text").write_bytes(b"".join(b"line %d: the quick brown fox\n" % i for i in range(100)))
    (folder / "other").write_bytes(b"".join(b"row %d: the lazy dog sleeps\n" % i for i in range(100)))
    (folder / "rows").write_bytes(b"".join(b'{"t": "row %d", "y": "%d"}\n' % (i, i % 2) for i in range(100)))
    (folder / "small.cfg").write_text(json.dumps(CONFIG.to_dict()))
    prequential.compress(
        folder / "text", folder / "text.pq", config=CONFIG, runtime=prequential.Runtime(kernels="fused")
    )
    (folder / "gpt.cfg").write_text(json.dumps(replace(CONFIG, mixer=None).to_dict()))
    subprocess.run(GIT, cwd=folder, shell=True, check=True, env=os.environ | {"GIT_CONFIG_GLOBAL": os.devnull})
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


@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=[] if each in QUICK else pytest.mark.thorough) for each in COMMANDS]
)
def test_no_planted_file_is_opened_or_run(folder, environment, command, tmp_path):
    runs = [str(path.relative_to(folder)) for path in sorted(folder.glob("runs/*")) if not path.name.startswith(".")]
    args = [part for word in command.split() for part in (runs if word == "RUNS" else [word])]
    program = [sys.executable, environment["SCRIPT"], *args]
    fresh = {"NUMBA_CACHE_DIR": str(tmp_path)} if "compiled" in command else {}  # this command compiles its kernels
    done = subprocess.run(program, cwd=folder, env=environment | fresh, capture_output=True, timeout=300)
    assert done.returncode == 0 or any(word in command for word in MAY_FAIL), done.stderr.decode()
    assert not (folder / "PWNED").exists(), (folder / "PWNED").read_text()
    planted = {f"{name}.py" for name in MODULES} | SETTINGS.keys() | {"__pycache__", "planted_cache", "~"}
    assert not opened(environment) & planted, done.stderr.decode()
    assert b"config file" not in done.stderr  # numba would warn of its settings


def test_the_audit_sees_what_is_opened_and_what_children_open(folder, environment):
    opened(environment)
    program = "import subprocess, sys; open('setup.cfg'); subprocess.run([sys.executable, '-c', \"open('small.cfg')\"])"
    subprocess.run([sys.executable, "-P", "-c", program], cwd=folder, env=environment, check=True)
    assert {"setup.cfg", "small.cfg"} <= opened(environment)


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
