"""The pages of the site that show the notebooks: text, code, and what the code printed and drew."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def pages(folder: Path) -> dict[str, str | bytes]:
    """The contents of each page, and of each picture on one, by its place on the site."""
    made: dict[str, str | bytes] = {}
    for path in sorted(folder.glob("*.ipynb")):
        parts = []
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            source = "".join(cell["source"])
            parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
            for output in cell.get("outputs", ()):
                parts += shown(output, path.stem, made)
        made[f"notebooks/{path.stem}.md"] = "\n\n".join(parts)
    return made


def shown(output: dict[str, Any], name: str, made: dict[str, str | bytes]) -> Iterator[str]:
    """An output in Markdown. Its picture is added to `made`."""
    data = output.get("data", {})
    if "image/png" in data:
        place = f"{name}-{len(made)}.png"
        made[f"notebooks/{place}"] = base64.b64decode("".join(data["image/png"]))
        yield f"![the chart that the cell above draws]({place})"
    elif "text/html" in data:  # in one line: Markdown would read an empty or an indented line in its own way
        html = re.sub(
            r"<pre.*?</pre>", lambda pre: pre[0].replace("\n", "&#10;"), "".join(data["text/html"]), flags=re.DOTALL
        )
        yield f'<div class="output">{" ".join(html.split())}</div>'
    elif text := "".join(output.get("text", data.get("text/plain", ()))).rstrip():
        yield f"```text\n{text}\n```"
