"""Write one self-contained HTML page that opens offline and needs no server.

The data are JSON in a script element that is never executed. The content security policy lists the
hashes of the scripts and the style sheet, so no other code can run, whatever a file name contains.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

from dims.commands.pages.style import COLOURS
from dims.sampling.files import write_text_atomically

__all__ = ["page_html", "write_page"]

SCRIPTS = (
    "dom.js", "chart.js", "table.js", "colours.js", "motion.js", "predictions.js", "held_out.js",
    "classes.js", "pictures.js", "ood.js", "page.js",
)  # fmt: skip
# Result rows whose name differs from the name of their method.
ALIASES = {"dims_full": "dims", "ensemble": "deep_ensemble", "last_layer_la": "last_layer"}

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to content</a>
<header><h1>{title}</h1><button id="theme" type="button">Light / dark</button></header>
<nav id="menu" aria-label="Sections"></nav>
<main id="main"><noscript>{plain}<p>All else on this page needs JavaScript.</p></noscript>
</main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page_html(payload: dict[str, Any]) -> str:
    """Return the page as text.

    Args:
        payload: The data of the page, as `read_page` returns them.

    Returns:
        A complete HTML document.
    """
    style = _asset("style.css") + _method_colours()
    script = "\n".join(_asset(name) for name in SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data:; script-src '{_digest(script)}'; "
        f"style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'"
    )
    return PAGE.format(
        policy=policy,
        title=html.escape(str(payload["title"])),
        style=style,
        plain=_plain(payload),
        data=_embedded(payload),
        script=script,
    )


def write_page(payload: dict[str, Any], path: Path) -> Path:
    """Write the page atomically: an interruption leaves the old file or the new one.

    Args:
        payload: The data of the page, as `read_page` returns them.
        path: The file to write; missing folders are created.

    Returns:
        `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(path, page_html(payload))
    return path


def _asset(name: str) -> str:
    """The text of a script or style sheet of the package."""
    return (resources.files("dims.commands.pages") / "page" / name).read_text(encoding="utf-8")


def _plain(payload: dict[str, Any]) -> str:
    """The verdict and the scores of held-out rows, for readers without JavaScript."""
    made = "".join(f"<p>{html.escape(str(line))}</p>" for line in payload.get("verdict", []))
    for found in payload.get("tables", []):
        if found["id"] == "held-out":
            lines = [[head["label"] for head in found["columns"]], *found["rows"]]
            rows = ("".join(f"<td>{_cell(value)}</td>" for value in line) for line in lines)
            made += f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
    return made


def _cell(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return "" if value is None else html.escape(text)


def _method_colours() -> str:
    """One CSS variable per method."""
    # The style sheet sets these two itself, because they differ between light and dark.
    fixed = {key: value for key, value in COLOURS.items() if key not in ("map", "dims_settled")}
    fixed |= {name: COLOURS[key] for name, key in ALIASES.items()}
    return ":root {" + " ".join(f"--{key}: {value};" for key, value in fixed.items()) + "}\n"


def _digest(text: str) -> str:
    """The hash of a script or style, as a content security policy writes it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(payload: dict[str, Any]) -> str:
    """JSON that cannot close its script element; numbers that are not finite become null."""
    text = json.dumps(_finite(payload), allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _finite(value: Any) -> Any:
    """`value` with None in place of numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return value
