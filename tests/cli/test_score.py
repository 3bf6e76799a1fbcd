"""score: what cannot be scored is one line and appends nothing."""

import pytest

from prequential.cli.main import parser
from prequential.errors import CorpusError


@pytest.mark.parametrize(
    ("content", "message"), [(None, "No such file"), ("{", "is no JSON"), ("{}", "is no forecast")]
)
def test_what_is_no_forecast_cannot_be_scored(tmp_path, content, message):
    path = tmp_path / "forecast.json"
    if content is not None:
        path.write_text(content)
    args = parser().parse_args(["score", str(path), "sample:christmas_carol"])
    with pytest.raises(CorpusError, match=message):
        args.run(args)
    assert not (tmp_path / "scores.jsonl").exists()


def test_the_program_says_it_in_one_line(run, tmp_path):
    (tmp_path / "f.json").write_text("[]")
    done = run(tmp_path, "score", "f.json", "a")
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == ["prequential: 'f.json' is no forecast of schema 1"]
