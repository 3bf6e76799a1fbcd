"""Compiled kernels are kept in a private folder of exactly this program; without one it works, and says so once."""

import ast
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import prequential
from prequential.files.work_folder import has_locked
from prequential.machine import kernel_cache
from prequential.machine.compiled import kernel
from prequential.machine.kernel_cache import PACKAGES, package_folder

PROJECT = Path(prequential.__file__).parents[1]
pytestmark = pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="kernels are interpreted")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder of this process."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    remembered = kernel_cache.version, kernel_cache.kernel_folder, kernel_cache._warn_unsaved
    for function in remembered:
        function.cache_clear()
    yield tmp_path / "cache"
    monkeypatch.undo()
    for function in remembered:
        function.cache_clear()


def fresh():
    """A dispatcher that has compiled nothing."""

    def double(x):
        return 2 * x

    return kernel(double)


def hits_and_misses(compiled):
    return sum(compiled._cache_hits.values()), sum(compiled._cache_misses.values())


def test_a_kernel_is_compiled_once_and_loaded_later(cache):
    first, second = fresh(), fresh()
    assert first(2) == 4 and first(2.5) == 5.0
    assert hits_and_misses(first) == (0, 2)
    assert second(3.5) == 7.0 and second(4) == 8
    assert hits_and_misses(second) == (2, 0)


def test_a_kernel_that_another_process_compiles_is_awaited(cache):
    fresh()(2)
    (path,) = kernel_cache.kernel_folder().iterdir()
    data, waiting = path.read_bytes(), fresh()
    path.unlink()
    with path.with_suffix(".lock").open("w") as compiling, ThreadPoolExecutor(1) as pool:
        assert has_locked(compiling.fileno())
        call = pool.submit(waiting, 3)
        with pytest.raises(TimeoutError):
            call.result(1.0)
        path.write_bytes(data)
        compiling.close()
        assert call.result(30) == 6
    assert hits_and_misses(waiting) == (1, 0)
    assert list(kernel_cache.kernel_folder().iterdir()) == [path]


def test_the_folder_is_private_whatever_the_umask_and_holds_one_file_a_kernel(cache):
    before = os.umask(0o002)
    try:
        fresh()(1)
    finally:
        os.umask(before)
    folder = kernel_cache.kernel_folder()
    assert folder.parent == cache / "prequential" and cache.stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.suffix for path in folder.iterdir()] == [".kernel"]


def test_a_damaged_file_is_compiled_again(cache):
    fresh()(5)
    (path,) = kernel_cache.kernel_folder().iterdir()
    data = path.read_bytes()
    flipped = bytes([*data[:1000], data[1000] ^ 1, *data[1001:]])
    for damaged in (flipped, data[:100], b""):
        path.write_bytes(damaged)
        again = fresh()
        assert again(5) == 10 and hits_and_misses(again) == (0, 1)


def test_a_full_disk_costs_time_only_and_one_warning(cache, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    kernel_cache.kernel_folder()
    monkeypatch.setattr(Path, "write_bytes", full)
    assert fresh()(6) == 12 and fresh()(6.5) == 13.0
    (said,) = [record.message for record in caplog.records if "No space left" in record.message]
    assert "later runs compile the kernels again" in said and str(kernel_cache.kernel_folder()) in said
    assert not list(kernel_cache.kernel_folder().iterdir())


PLANTED = {
    "open": lambda folder: folder.chmod(0o777),
    "open above": lambda folder: folder.parent.parent.chmod(0o777),
    "group may write above": lambda folder: folder.parent.parent.chmod(0o770),
    "owner": lambda folder: os.chown(folder, 12345, 12345),
    "owner above": lambda folder: os.chown(folder.parent.parent, 12345, 12345),
}


@pytest.mark.parametrize("planted", ["link", *PLANTED])
def test_nothing_is_loaded_from_a_folder_that_is_not_ours(cache, planted, caplog, tmp_path):
    fresh()(7)
    folder = kernel_cache.kernel_folder()
    if planted == "link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    elif "owner" in planted and os.geteuid() != 0:
        pytest.skip("needs root")
    else:
        PLANTED[planted](folder)
    kernel_cache.kernel_folder.cache_clear()
    again = fresh()
    assert again(7) == 14 and hits_and_misses(again) == (0, 1)
    assert len([record for record in caplog.records if "each run compiles its kernels" in record.message]) == 1


def test_a_folder_that_a_group_may_change_is_named_and_the_sticky_bit_is_enough(cache, caplog):
    cache.mkdir()
    cache.chmod(0o775)
    assert kernel_cache.kernel_folder() is None
    assert f"others may write in {str(cache)!r}" in caplog.text
    kernel_cache.kernel_folder.cache_clear()
    cache.chmod(0o1775)  # with the sticky bit, they may not rename what is not theirs
    assert kernel_cache.kernel_folder()


def test_nothing_is_saved_after_an_update_while_the_program_runs(cache, monkeypatch):
    """Its kernels are of the old sources, or of both; the digest of the folder would be of the new ones in a later process."""
    monkeypatch.setattr(kernel_cache, "AT_IMPORT", bytes(16))
    assert fresh()(3) == 6
    assert not list(kernel_cache.kernel_folder().iterdir())


def test_folders_of_other_versions_are_deleted_when_unused(cache):
    old, young = (cache / "prequential" / f"kernels-{name}" for name in ("old", "young"))
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    (cache / "prequential").chmod(0o700)
    fresh()(1)
    assert not old.exists() and young.exists()


def test_the_version_covers_contents_and_not_times(cache, tmp_path, monkeypatch):
    for name in PACKAGES:
        shutil.copytree(package_folder(name), tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(kernel_cache, "package_folder", lambda name: tmp_path / name)

    def version():
        kernel_cache.version.cache_clear()
        monkeypatch.setattr(kernel_cache, "AT_IMPORT", kernel_cache._digest_of_sources())
        return kernel_cache.version()

    before = version()
    helper = tmp_path / "prequential_codecs" / "bit_coder.py"
    times = helper.stat().st_atime_ns, helper.stat().st_mtime_ns
    text = helper.read_text()
    helper.write_text(text.replace("WIDTH", "WIDHT", 1))
    os.utime(helper, ns=times)
    assert version() != before
    helper.write_text(text)
    assert version() == before
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    assert version() != before


NO_CONSTANTS = (
    "prequential/errors", "prequential/printable", "prequential/online/loop", "prequential/learners/protocol",
    "codecs/prequential_codecs/archive_header", "corpora/prequential_corpora/corpus", "corpora/prequential_corpora/symbols",
)  # fmt: skip


def imports(path):
    """The modules of the project that a file imports when it is imported."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = (name.partition(".") for name in names if name.partition(".")[0] in PACKAGES)
    files = {package_folder(first) / f"{rest.replace('.', '/')}.py" for first, _, rest in paths}
    return {file.resolve() for file in files if file.exists()}


def program_files():
    return [path.resolve() for name in PACKAGES for path in package_folder(name).rglob("*.py")]


def test_every_file_that_a_kernel_may_take_constants_from_is_in_the_version():
    """Constants of an imported module become part of a kernel. These modules have none that kernels use."""
    no_constants = {PROJECT / f"{name}.py" for name in NO_CONSTANTS}
    sources = {path.resolve() for path in kernel_cache.kernel_sources().values()}
    decorators = ("@kernel", "@inlined", "@helper", "= inlined(", "= kernel(")
    with_kernels = {path for path in program_files() if any(word in path.read_text() for word in decorators)}
    assert with_kernels <= sources
    for path in with_kernels:
        assert imports(path) <= sources | no_constants, path


# ---- the program

# Of a GPT alone, interpreted but for the coder, so that little is compiled.
CONFIG = prequential.Config(gpt=prequential.GPTConfig(n_layers=1, width=16, n_heads=1, window=16), mixer=None)
QUICK = ("compress", "--kernels", "plain", "--config", "small.json", "text")


@pytest.fixture
def folder(tmp_path):
    """A folder with a text and a quick learner."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "text").write_bytes(b"the same text " * 20)
    (folder / "small.json").write_text(json.dumps(CONFIG.to_dict()))
    return folder


def run(folder, *args, **environment):
    """The program in a folder; environment: None removes a variable."""
    changed = {**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"} | environment
    kept = {name: value for name, value in changed.items() if value is not None and name != "NUMBA_CACHE_DIR"}
    command = [sys.executable, "-m", "prequential", *args]
    return subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, timeout=300)


def test_a_wrong_setting_of_numba_is_one_line(folder):
    done = run(folder, *QUICK, NUMBA_NUM_THREADS="0")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "NUMBA_*" in done.stderr, done.stderr


# An unknown version, without an option that is not documented. The import of the quick pipeline would fail.
UNKNOWN_NUMBA = """
import sys
import numba.core.cpu
numba.__version__ = "99.0"
del numba.core.cpu._options_mixin.no_cfunc_wrapper
sys.modules["prequential.machine.quick_pipeline"] = None
"""


@pytest.mark.thorough
def test_an_unknown_numba_compiles_with_its_own_pipeline_and_gives_the_same_archive(folder):
    (folder / "sitecustomize.py").write_text(UNKNOWN_NUMBA)
    environment = {"PYTHONPATH": f"{PROJECT}{os.pathsep}{folder}", "XDG_CACHE_HOME": str(folder / "cache")}
    for command in ("compress", "-1", "text"), ("decompress", "text.pq", "-o", "back"):
        done = run(folder, *command, **environment)
        assert done.returncode == 0, done.stderr
        assert ("compiling kernels" in done.stderr) == (command[0] == "compress"), done.stderr
    assert (folder / "back").read_bytes() == (folder / "text").read_bytes()
    quick = prequential.compress(folder / "text", config=prequential.preset(1))
    assert quick == (folder / "text.pq").read_bytes()


@pytest.mark.thorough
@pytest.mark.parametrize("home", [{"HOME": "/proc/no-home"}, {"HOME": ""}])
def test_without_a_home_the_program_works_with_one_warning_and_leaves_nothing_here(folder, home):
    done = run(folder, *QUICK, **home, XDG_CACHE_HOME=None)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("each run compiles its kernels") == done.stderr.count("warning") == 1, done.stderr
    assert {path.name for path in folder.iterdir()} == {"small.json", "text", "text.pq"}
