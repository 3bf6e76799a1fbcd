"""score: a forecast that cannot be scored is one line, and nothing is appended."""

import pytest

from prequential.cli.main import build_parser
from prequential.errors import CorpusError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("A text.", "is not JSON"),
        ("{}", "is not a forecast"),
    ],
)
def test_a_file_that_is_not_a_forecast_cannot_be_scored(tmp_path, content, message):
    path = tmp_path / "forecast.json"
    if content is not None:
        path.write_text(content)
    args = build_parser().parse_args(["score", str(path), "sample:christmas_carol"])
    with pytest.raises(CorpusError, match=message):
        args.run(args)
    assert not (tmp_path / "scores.jsonl").exists()


def test_the_error_is_one_line(run, tmp_path):
    (tmp_path / "f.json").write_text("[]")
    done = run(tmp_path, "score", "f.json", "a")
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == ["prequential: 'f.json' is not a forecast of schema 1"]
