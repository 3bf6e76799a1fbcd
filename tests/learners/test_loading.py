"""Whose code --learner runs: the named module, what is installed, and what lies beside the module; nothing else."""

import sys
from pathlib import Path

import own_learners
import pytest

from prequential.errors import ConfigError
from prequential.learners.loading import load_spec, parse_arguments

LEARNER = Path(own_learners.__file__).read_text()


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Modules that a test imports are forgotten."""
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]


def written(folder, **modules):
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)


def source(spec):
    return spec.description["learner"]["source"]


def test_a_module_of_the_current_folder_does_not_stand_in_for_an_installed_one(tmp_path, monkeypatch):
    written(tmp_path, mine="import pyppmd\n" + LEARNER, pyppmd="raise SystemExit('planted')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "pyppmd", raising=False)
    load_spec("mine:Counts")
    load_spec(f"{tmp_path / 'mine.py'}:Counts")


def test_the_current_folder_is_not_on_the_path_afterwards(tmp_path, monkeypatch):
    written(tmp_path, mine=LEARNER, beside="")
    monkeypatch.chdir(tmp_path)
    path, finders = list(sys.path), list(sys.meta_path)
    load_spec("mine:Counts")
    assert sys.path == path and sys.meta_path == finders
    with pytest.raises(ImportError):
        __import__("beside")


@pytest.mark.parametrize("by_file", [True, False])
def test_a_learner_imports_the_modules_beside_it_and_its_digest_covers_them(tmp_path, monkeypatch, by_file):
    package = tmp_path / "parts"
    package.mkdir()
    written(package, __init__="", rates="RATE = 1")
    written(tmp_path, mine="import helper\n" + LEARNER, helper="from parts import rates", other="X = 1")
    monkeypatch.chdir(tmp_path)
    name = f"{tmp_path / 'mine.py'}:Counts" if by_file else "mine:Counts"
    first = source(load_spec(name))
    assert source(load_spec(name)) == first  # also when all are imported already

    def after(folder, **change):
        for known in ("mine", "helper", "parts", "parts.rates"):
            sys.modules.pop(known, None)
        written(folder, **change)
        return source(load_spec(name))

    assert after(tmp_path, other="X = 2") == first
    assert after(package, rates="RATE = 22") != first
    assert after(package, rates="RATE = 1") == first
    assert after(tmp_path, helper="from parts import rates  # changed") != first


def again(name):
    """The digest that a new process finds, which has imported nothing yet."""
    for known in ("mine", "helper", "owned", "owned.parts"):
        sys.modules.pop(known, None)
    return source(load_spec(name))


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.path.insert(0, {folder!r}); import helper\n" + LEARNER,
        LEARNER + "\ndef make():\n    import sys; sys.path.insert(0, {folder!r}); import helper\n    return Counts()\n",
        "import functools, helper\n" + LEARNER + "\nmake = functools.partial(Counts)\n",
    ],
    ids=["by sys.path", "when it is made", "a factory without source"],
)
def test_a_helper_that_changed_is_another_learner(tmp_path, monkeypatch, code):
    monkeypatch.setattr(sys, "path", list(sys.path))
    written(tmp_path, mine=code.replace("{folder!r}", repr(str(tmp_path))), helper="RATE = 1")
    name = f"{tmp_path / 'mine.py'}:{'make' if 'make' in code else 'Counts'}"
    first = again(name)
    assert first and source(load_spec(name)) == first == again(name)
    written(tmp_path, helper="RATE = 22")
    assert again(name) != first


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no.such.module:f", "'no.such.module' cannot be imported: ModuleNotFoundError"),
        ("own_learners:nothing", "has no 'nothing'"),
        ("own_learners", "names no learner"),
        ("own_learners:not_a_factory", "not a function or class"),
        ("missing.py:f", "file 'missing.py' does not exist"),
    ],
)
def test_a_name_that_names_no_learner_is_one_line(name, text):
    with pytest.raises(ConfigError, match=text):
        load_spec(name)


def test_arguments_are_json_or_text():
    assert parse_arguments(["lr=3e-4", "name=gpt", 'x={"a":1}', "b=true"]) == {
        "lr": 3e-4, "name": "gpt", "x": {"a": 1}, "b": True,
    }  # fmt: skip
    for wrong in (["lr"], ["=3"], ["a b=3"], ["a=1", "a=2"]):
        with pytest.raises(ConfigError):
            parse_arguments(wrong)
    with pytest.raises(ConfigError, match="cannot be made: TypeError"):
        load_spec("own_learners:Counts", {"no_such": 1})
