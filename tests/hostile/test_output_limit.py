"""`decompress --max-output` and `test --max-output`: an archive of a longer original is refused before anything is written."""

from pathlib import Path

import pytest
from forge import Draft
from seeds import RUNTIME, seeds

import prequential
from prequential.cli.main import main
from prequential.errors import OutputError
from prequential.online.runtime import Runtime


def declaring(n_bytes: int) -> bytes:
    """A valid header that declares an original of n_bytes bytes, and blocks of fewer."""
    draft = Draft.of(seeds()["mixer"].archive)
    draft.n_bytes = n_bytes
    return draft.sealed()


@pytest.mark.parametrize("command", ["decompress", "test"])
@pytest.mark.parametrize("n_bytes", [4097, 1 << 40, (1 << 63) - 1])
def test_a_longer_original_is_refused_in_one_line_before_anything_is_made(
    n_bytes: int, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.pq").write_bytes(declaring(n_bytes))
    for name in ("check", "learner"):
        monkeypatch.setattr(Runtime, name, lambda *_: pytest.fail("the limit of the output is checked first"))
    assert main([command, "--max-output", "4K", str(tmp_path / "a.pq")]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert f"the original has {n_bytes:,} bytes, more than the limit of 4,096 bytes" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["a.pq"]
    with pytest.raises(OutputError, match="more than the limit of 4,096 bytes; raise max_output_bytes= "):
        prequential.decompress(declaring(n_bytes), max_output_bytes=4096)


def test_an_original_of_exactly_the_limit_is_decoded() -> None:
    seed = seeds()["mixer"]
    assert prequential.decompress(seed.archive, runtime=RUNTIME, max_output_bytes=len(seed.original)) == seed.original
    assert prequential.decompress(seeds()["empty"].archive, runtime=RUNTIME, max_output_bytes=0) == b""


def test_the_limit_of_a_folder_is_that_of_its_list_and_contents(tmp_path: Path) -> None:
    tree = seeds()["tree"]
    n_bytes = len(tree.original)
    with pytest.raises(OutputError, match="more than the limit"):
        prequential.decompress(tree.archive, tmp_path / "t", runtime=RUNTIME, max_output_bytes=n_bytes - 1)
    assert not any(tmp_path.iterdir())
    prequential.decompress(tree.archive, tmp_path / "t", runtime=RUNTIME, max_output_bytes=n_bytes)
    files = [path for path in (tmp_path / "t").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < n_bytes
