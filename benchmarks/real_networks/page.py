"""Tables and figures of docs/real_networks.md, from the files of scores.

The page has places `<!-- begin: NAME -->` … `<!-- end: NAME -->`; what lies between is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dims_paper.cache import read_json
from real_networks.figures import NAMES, corruption_figure, cost_figure
from tables import filled, markdown

Scores = dict[str, Any]


def write(results: Path, page: Path) -> None:
    """Fill every place of the page whose scores are there, and draw the figures beside it."""
    text = page.read_text(encoding="utf-8")
    for name in ("resnet20", "resnet18", "mnist", "fashion_mnist", "tiny"):
        path = results / f"{name}.json"
        if path.exists():
            found = read_json(path)
            makers = LENET if "budgets" in found else CIFAR
            for part, make in makers.items():
                text = filled(text, f"{name} {part}", make(found))
            if "methods" in found:
                images = page.parent / "images"
                cost_figure(found, images / f"real_networks_{name}.svg")
                corruption_figure(found, images / f"real_networks_{name}_corruptions.svg")
    page.write_text(text, encoding="utf-8")


def _methods(found: Scores) -> str:
    names = list(found["methods"][0]["auroc"])
    cooled = ["nll_cooled"] if "nll_cooled" in found["methods"][0] else []
    rows = [
        [
            _short(row["name"]),
            "all" if row["network"] is None else str(row["network"]),
            str(row["draws"]),
            f"{row['seconds']:.0f}",
            f"{row['accuracy']:.4f}",
            f"{row['nll']:.4f}",
            *(f"{row[column]:.4f}" for column in cooled),
            f"{row['ece']:.4f}",
            *(f"{row['auroc'][name]:.3f}" for name in names),
        ]
        for row in found["methods"]
        if row["kind"] != "pilot" and row["name"] != "ensemble of 1"
    ]
    head = ["method", "network", "draws", "GPU-s", "accuracy", "NLL", *map(_head, cooled), "ECE"]
    return markdown([*head, *map(_head, names)], rows)


def _differences(found: Scores) -> str:
    pairs = [*found["differences"], *found.get("network_differences", [])]
    if not pairs:
        return "No draws have been compared yet."
    columns = [key for key in pairs[0] if key not in ("ours", "theirs", "network")]
    rows = [
        [
            _short(pair["ours"]) + _start(pair),
            _short(pair["theirs"]),
            *(_interval(pair[column]) for column in columns),
        ]
        for pair in pairs
    ]
    return markdown(["method", "minus", *(_head(column) for column in columns)], rows)


def _short(name: str) -> str:
    """Without the settings of the motion, which the page states once."""
    name = re.sub(r"^dims prior\S+", "DiMS", name)
    name = re.sub(r"^dims_(\d+)_t([\d.]+)$", r"DiMS from network \1, t = \2", name)
    name = re.sub(r"^dims_(\d+)_stopped.*$", r"DiMS from network \1, stopped", name)
    return NAMES.get(name, name).replace("_", " ")


def _start(row: Scores) -> str:
    if row.get("network") is None:
        return ""
    return f" {row['network']}" if row.get("name") == "network" else f", network {row['network']}"


HEADS = {
    "nll": "NLL",
    "nll_cooled": "NLL, temperature chosen",
    "ece": "ECE",
    "dtd10": "textures",
    "flowers102": "flowers",
    "gtsrb_test": "traffic signs",
    "svhn_test": "SVHN",
    "tinyimagenet_val": "Tiny ImageNet",
    "emnist_letters": "EMNIST letters",
    "emnist_mnist": "EMNIST digits",
    "fashion_mnist": "Fashion-MNIST",
    "kmnist": "KMNIST",
    "mnist": "MNIST",
}


def _head(column: str) -> str:
    prefix = "AUROC " if column.startswith("auroc ") else ""
    name = column.removeprefix("auroc ")
    return prefix + HEADS.get(name, name.replace("_", " "))


def _interval(values: Sequence[float]) -> str:
    value, low, high = values
    return f"{value:+.4f} ({low:+.4f} to {high:+.4f})"


def _corrupted(found: Scores) -> str:
    rows = [
        [
            _short(row["name"]) + _start(row),
            HEADS.get(column, column),
            *(f"{value:.4f}" for value in row["corrupted"][column]),
        ]
        for row in found["methods"]
        if "corrupted" in row and row["name"] not in ("ensemble of 1", "ensemble of 2")
        for column in ("accuracy", "nll", "ece")
    ]
    return markdown(["method", "mean over kinds", *(f"strength {n}" for n in range(1, 6))], rows)


def _precisions(found: Scores) -> str:
    probe = found.get("probe")
    if probe is None:
        return "Their seconds and errors on this network have not been measured yet."
    rows = [
        [
            row["precision"] + (", compiled" if row["compiled"] else ""),
            f"{row['seconds_a_row']:.3f}",
            *(f"{error:.1e}" for error in row["gradient_error"]),
            *(f"{error:+.1e}" for error in row["value_error"]),
        ]
        for row in probe["gradients"]
    ]
    head = ["convolutions", f"seconds for {probe['images']} images", "error of the gradient at θ*"]
    return markdown([*head, "away from it", "error of L at θ*", "away from it"], rows)


def _lenet_rows(found: Scores) -> str:
    """All draws; the first member, the first five and all of an ensemble."""
    names = list(found["rows"][0]["auroc"])
    most = max(row["draws"] for row in found["rows"])
    rows = [
        [
            _short(row["name"]),
            f"{row['facts']['t']:.2g}" if "t" in row["facts"] else "",
            str(row["draws"]),
            f"{row['facts']['seconds']:.0f}" if row["draws"] == most else "",
            f"{row['accuracy']:.4f}",
            f"{row['nll']:.4f}",
            f"{row['ece']:.4f}",
            *(f"{row['auroc'][name]:.3f}" for name in names),
        ]
        for row in found["rows"]
        if row["draws"] == most or (row["name"].startswith("ens") and row["draws"] in (1, 5))
    ]
    head = ["", "t", "draws", "GPU-s", "accuracy", "NLL", "ECE", *map(_head, names)]
    return markdown(head, rows)


def _budgets(found: Scores) -> str:
    rows = [
        [
            str(row["training"]),
            f"{row['factor']}×",
            f"{row['allowed']:.0f}",
            *(
                [
                    str(row["draws"]),
                    f"{row['t']:.2g}",
                    f"{row['seconds']:.0f}",
                    _interval(row["nll"]),
                ]
                if row["draws"]
                else ["none", "", "", ""]
            ),
        ]
        for row in found["budgets"]
    ]
    head = ["training", "budget", "GPU-s", "draws that fit", "t", "their GPU-s"]
    return markdown([*head, "NLL, draws − ensemble"], rows)


Maker = Callable[[Scores], str]
CIFAR: dict[str, Maker] = {
    "methods": _methods,
    "differences": _differences,
    "corruptions": _corrupted,
    "precision": _precisions,
}
LENET: dict[str, Maker] = {
    "rows": _lenet_rows,
    "differences": _differences,
    "budgets": _budgets,
}
