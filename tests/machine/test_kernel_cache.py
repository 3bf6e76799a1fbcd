"""Compiled kernels are kept in a private folder of exactly this program; without one it works, and says so once."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import prequential
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
    return sum(compiled.stats.cache_hits.values()), sum(compiled.stats.cache_misses.values())


def test_a_kernel_is_compiled_once_and_loaded_later(cache):
    first, second = fresh(), fresh()
    assert first(2) == 4 and first(2.5) == 5.0
    assert hits_and_misses(first) == (0, 2)
    assert second(3.5) == 7.0 and second(4) == 8
    assert hits_and_misses(second) == (2, 0)


def test_the_folder_is_private_and_a_second_process_replaces_the_file(cache):
    for _ in range(3):  # as if each had compiled it
        compiled = fresh()
        compiled._cache.load_overload = lambda *_: None
        compiled(1)
    folder = kernel_cache.kernel_folder()
    assert folder.parent == cache / "prequential" and folder.stat().st_mode & 0o777 == 0o700
    assert [path.suffix for path in folder.iterdir()] == [".kernel"]


def test_a_kernel_is_not_taken_for_another_one_whose_name_begins_alike(cache):
    first, other = fresh(), fresh()
    other._cache._name = f"{first._cache._name}.more"
    other(1)
    first(1)
    assert hits_and_misses(first) == (0, 1)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_file_is_compiled_again(cache, damage):
    fresh()(5)
    (path,) = kernel_cache.kernel_folder().iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes({"flip": bytes(data), "cut": bytes(data[:100]), "empty": b""}[damage])
    again = fresh()
    assert again(5) == 10 and hits_and_misses(again) == (0, 1)


def test_a_full_disk_costs_time_only_and_one_warning(cache, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    kernel_cache.kernel_folder()
    monkeypatch.setattr(Path, "write_bytes", full)
    assert fresh()(6) == 12 and fresh()(6.5) == 13.0
    assert [record.message for record in caplog.records if "No space left" in record.message] == [
        f"later runs compile the kernels again, because they cannot be saved in {str(kernel_cache.kernel_folder())!r}: "
        "No space left on device"
    ]
    assert not list(kernel_cache.kernel_folder().iterdir())


@pytest.mark.parametrize(
    "planted", ["link", "open", "file", "owner", "parent's owner", "owner above", "open above", "group may write above"]
)
def test_nothing_is_loaded_from_a_folder_that_is_not_ours(cache, planted, caplog, tmp_path):
    fresh()(7)
    folder = kernel_cache.kernel_folder()
    if planted == "link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    elif planted == "open":
        folder.chmod(0o777)
    elif planted == "open above":
        folder.parent.parent.chmod(0o777)
    elif planted == "group may write above":
        folder.parent.parent.chmod(0o770)
    elif planted == "file":
        shutil.rmtree(folder)
        folder.write_text("")
    elif os.geteuid() == 0:
        changed = {"owner": folder, "parent's owner": folder.parent, "owner above": folder.parent.parent}
        os.chown(changed[planted], 12345, 12345)
    else:
        pytest.skip("needs root")
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


def test_a_program_without_source_files_keeps_no_kernels(cache, monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(kernel_cache, "package_folder", lambda name: tmp_path / "prequential.zip" / name)
    assert kernel_cache._digest_of_sources() == b""
    monkeypatch.setattr(kernel_cache, "AT_IMPORT", b"")
    assert fresh()(4) == 8 and kernel_cache.kernel_folder() is None
    assert "without its source files" in caplog.text


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


def imports(path):
    """The modules of the project that a file imports when it is imported."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {node.module, *inner}
    paths = (name.partition(".") for name in found if name.partition(".")[0] in PACKAGES)
    files = {package_folder(first) / f"{rest.replace('.', '/')}.py" for first, _, rest in paths}
    return {file.resolve() for file in files if file.exists()}


def program_files():
    return [path.resolve() for name in PACKAGES for path in package_folder(name).rglob("*.py")]


def test_every_file_that_a_kernel_may_take_constants_from_is_in_the_version():
    """Constants of an imported module become part of a kernel. These modules have none that kernels use."""
    no_constants = {
        *(
            package_folder("prequential") / f"{name}.py"
            for name in ("errors", "printable", "online/loop", "learners/protocol")
        ),
        *(package_folder("prequential_corpora") / f"{name}.py" for name in ("corpus", "symbols")),
        package_folder("prequential_codecs") / "archive_header.py",
    }
    sources = {path.resolve() for path in kernel_cache.kernel_sources().values()}
    decorators = ("@kernel", "@inlined", "@helper", "= inlined(", "= kernel(")
    with_kernels = {path for path in program_files() if any(word in path.read_text() for word in decorators)}
    assert with_kernels <= sources
    for path in with_kernels:
        assert imports(path) <= sources | no_constants, path


def test_only_one_file_imports_numba_at_its_top():
    """The others take it from there, where it is imported without the settings of the current folder."""
    found = {
        path.name
        for path in program_files()
        for node in ast.parse(path.read_text()).body
        if (isinstance(node, ast.Import) and any(alias.name.partition(".")[0] == "numba" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "numba")
    }
    assert found == {"compiled.py"}


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


def installed(folder, name):
    """A copy of the program, without bytecode. The value of PYTHONPATH that runs it."""
    for package in PACKAGES:
        shutil.copytree(package_folder(package), folder / name / package, ignore=shutil.ignore_patterns("__pycache__"))
    return str(folder / name)


def run(folder, *args, python=(), **environment):
    """The program in a folder; environment: None removes a variable."""
    changed = {**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"} | environment
    kept = {name: value for name, value in changed.items() if value is not None and name != "NUMBA_CACHE_DIR"}
    command = [*python, sys.executable, "-m", "prequential", *args]
    return subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, timeout=300)


@pytest.mark.thorough
def test_without_a_writable_home_the_program_works_with_one_warning(folder):
    done = run(folder, *QUICK, HOME="/proc/no-home", XDG_CACHE_HOME=None)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("each run compiles its kernels") == done.stderr.count("warning") == 1, done.stderr


def test_a_wrong_setting_of_numba_is_one_line(folder):
    done = run(folder, *QUICK, NUMBA_NUM_THREADS="0")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "NUMBA_*" in done.stderr, done.stderr


@pytest.mark.thorough
def test_a_numba_without_the_parts_that_kernels_need_is_one_line(folder):
    (folder / "sitecustomize.py").write_text(
        "from numba.core import typed_passes\ndel typed_passes.PreLowerStripPhis\n"
    )
    done = run(folder, *QUICK, PYTHONPATH=f"{PROJECT}{os.pathsep}{folder}")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "numba 0.61 to" in done.stderr, done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
@pytest.mark.thorough
def test_a_user_without_home_and_entry_leaves_nothing_in_the_current_folder(tmp_path, folder):
    planted = folder / "~" / ".cache" / "prequential"
    planted.mkdir(parents=True)
    for path in (tmp_path, *tmp_path.parents):
        path.chmod(path.stat().st_mode | 0o055)
    os.chown(folder, 54321, 54321)
    as_nobody = ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")
    probe = [*as_nobody, sys.executable, "-c", "import numba"]
    if not shutil.which("setpriv") or subprocess.run(probe, cwd=folder, check=False).returncode:
        pytest.skip("needs setpriv, and an installation that every user can read")
    done = run(folder, *QUICK, python=as_nobody, HOME=None, XDG_CACHE_HOME=None)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("each run compiles its kernels") == 1, done.stderr
    assert {path.name for path in folder.iterdir()} == {"small.json", "text", "text.pq", "~"} and not list(
        planted.iterdir()
    )


def test_doctor_names_the_folder(cache, monkeypatch, capsys):
    from prequential.cli.main import main

    monkeypatch.setattr("prequential.online.selftest.checks", lambda: ())
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machine"]["kernels"] == str(kernel_cache.kernel_folder())


@pytest.mark.slow
def test_an_update_that_keeps_the_times_of_files_runs_the_new_kernels(tmp_path):
    """An archive of the updated program decodes with a fresh installation of it: no stale kernel has run."""
    program = installed(tmp_path, "installed")
    (tmp_path / "text").write_bytes(b"It was the best of times, it was the worst of times. " * 40)
    here = {"PYTHONPATH": program, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert run(tmp_path, "compress", "-1", "-o", "first.pq", "text", **here).returncode == 0
    helper = Path(program) / "prequential" / "model" / "hashing.py"
    text, times = helper.read_text(), (helper.stat().st_atime_ns, helper.stat().st_mtime_ns)
    changed = text.replace("0x7F4A7C15", "0x7F4A7C17", 1)
    assert changed != text
    helper.write_text(changed)
    os.utime(helper, ns=times)
    assert run(tmp_path, "compress", "-1", "-o", "second.pq", "text", **here).returncode == 0
    assert (tmp_path / "first.pq").read_bytes() != (tmp_path / "second.pq").read_bytes()
    done = run(tmp_path, "test", "second.pq", **(here | {"XDG_CACHE_HOME": str(tmp_path / "fresh")}))
    assert done.returncode == 0, done.stderr
