"""report: a page of run folders, complete or absent; existing files are not overwritten."""

import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def folder(run, text, tmp_path_factory):
    """With the runs of two learners."""
    folder = tmp_path_factory.mktemp("reported")
    (folder / "a").write_bytes(text)
    for seed_options in ((), ("--seeds-tried", "2")):
        assert run(folder, "evaluate", "--limit", "3K", "--verify", *seed_options, "a").returncode == 0
    return folder


@pytest.fixture
def names(folder) -> list[str]:
    return [f"runs/{path.name}" for path in sorted((folder / "runs").iterdir())]


@pytest.mark.first_quick
def test_the_page_of_every_run_is_written_to_the_name_after_o_or_to_report_html(run, folder, names):
    assert len(names) == 2
    done = run(folder, "report", *names, "-o", "two.html")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"two.html\n")
    page = (folder / "two.html").read_text()
    assert page.startswith("<!doctype html>")
    assert all(Path(name).name in page for name in names)
    assert run(folder, "report", names[0]).returncode == 0
    assert (folder / "report.html").stat().st_size > 10_000


def test_an_existing_page_stays_without_f(run, folder, names):
    (folder / "mine.html").write_text("mine")
    refused = run(folder, "report", names[0], "-o", "mine.html")
    assert (refused.returncode, (folder / "mine.html").read_text()) == (1, "mine")
    assert refused.stderr.count(b"\n") == 1
    assert run(folder, "report", names[0], "-f", "-o", "mine.html").returncode == 0
    assert (folder / "mine.html").read_text() != "mine"
    assert run(folder, "report", names[1], "-o", "mine.html").returncode == 0  # a page of this program
    (folder / "link.html").symlink_to("mine.html")
    assert b"'link.html' exists" in run(folder, "report", names[0], "-o", "link.html").stderr


@pytest.mark.parametrize("option", [("-c",), ("-o", "-")])
def test_standard_output_takes_the_page_and_nothing_else(run, folder, names, option):
    done = run(folder, "report", names[0], *option)
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.fullmatch(rb"<!doctype html>.*</html>\n", done.stdout, re.DOTALL)


def test_a_page_of_a_folder_links_the_pages_in_it(run, folder, names):
    assert run(folder, "report", names[0], "-o", "runs/one run.html").returncode == 0
    assert b'<a href="one%20run.html">one run.html</a>' in _page(run, folder, "runs", "-o", "runs/all.html")
    again = _page(run, folder, "runs", "-o", "runs/all.html")  # a page does not link itself
    assert again.count(b".html</a>") == 1


def _page(run, folder, *command) -> bytes:
    assert run(folder, "report", *command).returncode == 0
    return (folder / command[-1]).read_bytes()


def test_what_is_no_run_is_named_in_one_line_and_o_and_c_together_are_a_usage_error(run, folder, names):
    done = run(folder, "report", ".", "-o", "none.html")
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"'.' is not a run, and holds none" in done.stderr
    for name in ("a", "missing"):
        assert run(folder, "report", names[0], name, "-c").returncode == 1
    assert not (folder / "none.html").exists()
    assert run(folder, "report", names[0], "-c", "-o", "x.html").returncode == 2
