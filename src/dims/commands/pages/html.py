"""One self-contained HTML page: it opens offline and asks nothing of any server.

Data travel as JSON in a script element that is never executed; programs and style are hashed in
the page's content security policy, so nothing else can run, whatever a name in a file says.
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
    "dom.js", "chart.js", "table.js", "colours.js", "motion.js", "predictions.js", "foreign.js",
    "page.js",
)  # fmt: skip
# Rows whose name is not that of their method.
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
<a class="skip" href="#main">To the content</a>
<header><h1>{title}</h1><button id="theme" type="button">Light or dark</button></header>
<nav id="menu" aria-label="Sections"></nav>
<main id="main"><noscript>This page draws its content with JavaScript; please allow it.</noscript>
</main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page_html(payload: dict[str, Any]) -> str:
    """The text of the page."""
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
        data=_embedded(payload),
        script=script,
    )


def write_page(payload: dict[str, Any], path: Path) -> Path:
    """Write the page, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(path, page_html(payload))
    return path


def _asset(name: str) -> str:
    return (resources.files("dims.commands.pages") / "page" / name).read_text(encoding="utf-8")


def _method_colours() -> str:
    # The style sheet has its own for these two: they must differ between light and dark.
    fixed = {key: value for key, value in COLOURS.items() if key not in ("map", "dims_settled")}
    fixed |= {name: COLOURS[key] for name, key in ALIASES.items()}
    return ":root {" + " ".join(f"--{key}: {value};" for key, value in fixed.items()) + "}\n"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(payload: dict[str, Any]) -> str:
    """JSON that cannot end its script element, with null for what is not finite."""
    text = json.dumps(_finite(payload), allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return value
