"""The complete example of docs/LEARNERS.md works, copied into an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "LEARNERS.md"


def test_the_example_is_measured_and_verified_in_an_empty_folder(tmp_path):
    text = DOCUMENT.read_text(encoding="utf-8")
    code = re.search(r"<!-- example: mine.py -->\n```python\n(.*?)```", text, re.DOTALL)[1]
    command = re.search(r"^    prequential (evaluate .*mine\.py.*)$", text, re.MULTILINE)[1]
    (tmp_path / "mine.py").write_text(code)
    arguments = command.replace("20K", "1500").split()
    done = subprocess.run(
        [sys.executable, "-m", "prequential", *arguments, "--baselines", "none"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "every byte decoded and compared on this machine and these versions" in done.stdout
    assert "mine.py:Markov(order = 3), 256 symbols, runs of 100" in done.stdout
    assert len([line for line in code.splitlines() if line.strip()]) <= 40
