"""Scores of LeNets from their predictions; needs no GPU.

At so many times the ensemble's seconds, DiMS is what fits: the most draws first, then the latest
time. The draws move side by side and a gradient costs in proportion to their number, so m of 20 are
counted with m/20 of the motion's seconds. Both clocks have the search for the training's settings;
that of DiMS has the training of one network, which takes at most as long as all of them in one
program, the search for prior, energy and time, and its curvature. Motions that were stopped count
if all draws were still moving.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dims_paper.cache import read_json, write_json
from dims_paper.datasets.images import load_images
from real_networks.comparing import (
    auroc,
    auroc_difference,
    by_image,
    calibration_difference,
    calibration_error,
    hits,
    right_nll,
)
from real_networks.predictions import load

FACTORS = (1, 3, 5)


def write(folder: Path, dataset: str, out: Path) -> None:
    """All trainings of a data set."""
    search = read_json(folder / "search.json")
    labels = load_images(dataset, "test").targets
    files = {
        path.stem: load(folder / "predictions", path.stem)
        for path in sorted((folder / "predictions").glob("*.json"))
    }
    labels = labels[: next(iter(files.values()))[0]["test"].shape[1]]
    whole = max(record["draws"] for _, record in files.values())
    files = {name: file for name, file in files.items() if file[1]["draws"] == whole}
    rows, compared, alone, budgets = [], [], [], []
    for name, (answers, record) in files.items():
        for index, size in enumerate(record["sizes"]):
            rows.append(_row(name, answers, record, index, size, labels))
    for name, (answers, _) in files.items():
        match = re.fullmatch(r"dims_(\d+)_(t[\d.]+|stopped\d+s)", name)
        other = files.get(f"ensemble_{match[1]}") if match else None
        if match and other is not None:
            found = _differences(answers, other[0], labels)
            compared.append({"ours": name, "theirs": f"ensemble_{match[1]}", **found})
            found = _differences(answers, other[0], labels, member=0)
            alone.append({"ours": name, "theirs": f"network_{match[1]}", **found})
    for name, (answers, record) in files.items():
        if name.startswith("ensemble_"):
            number = int(name.split("_")[1])
            for factor in FACTORS:
                found = _at(files, number, answers, record, search, factor, labels)
                budgets.append({"training": number, "factor": factor, **found})
    chosen = folder / "motion.json"
    search["motion"] = read_json(chosen) if chosen.exists() else None
    result = {"search": search, "rows": rows, "differences": compared, "budgets": budgets}
    write_json(out, {**result, "network_differences": alone}, indent=None)


def _row(
    name: str, answers: dict[str, Tensor], record: dict[str, Any], index: int, size: int, y: Tensor
) -> dict[str, Any]:
    logs = answers["test"][index].log_softmax(-1)
    inside = _entropy(logs)
    ood = {key[4:]: answers[key][index] for key in answers if key.startswith("ood_")}
    kept = ("t", "seconds", "network", "evaluations", "refreshes", "energy_violation", "prior")
    return {
        "name": name,
        "draws": size,
        "accuracy": float(hits(logs, y).mean()),
        "nll": float(right_nll(logs, y).mean()),
        "ece": calibration_error(logs, y),
        "auroc": {key: auroc(inside, outside) for key, outside in ood.items()},
        "facts": {key: record[key] for key in kept if key in record},
    }


def _differences(
    a: dict[str, Tensor], b: dict[str, Tensor], y: Tensor, member: int = -1
) -> dict[str, Any]:
    """Of the averages of all draws and all members; member=0: the network they start from."""
    ours, theirs = a["test"][-1].log_softmax(-1), b["test"][member].log_softmax(-1)
    found: dict[str, Any] = {
        "accuracy": by_image(hits(ours, y), hits(theirs, y)),
        "nll": by_image(right_nll(ours, y), right_nll(theirs, y)),
        "ece": calibration_difference(ours, theirs, y),
    }
    for key in (key for key in a if key.startswith("ood_")):
        pair = (_entropy(ours), a[key][-1]), (_entropy(theirs), b[key][member])
        found[f"auroc {key[4:]}"] = auroc_difference(*pair)
    return found


def _at(
    files: dict[str, Any],
    number: int,
    ensemble: dict[str, Tensor],
    record: dict[str, Any],
    search: dict[str, Any],
    factor: int,
    labels: Tensor,
) -> dict[str, Any]:
    """NLL of what DiMS has at a multiple of the ensemble's seconds, less the ensemble's."""
    allowed = factor * (record["seconds"] + search["seconds"])
    best: tuple[int, float, str, float] | None = None
    for name, (_, own) in files.items():
        if re.fullmatch(rf"dims_{number}_(t[\d.]+|stopped\d+s)", name):
            start = search["seconds"] + min(search["single"], record["seconds"])
            start += own.get("choosing_seconds", 0.0)
            for size in range(2, own["draws"] + 1):
                cost = start + own["seconds"] * size / own["draws"]
                if cost <= allowed and (best is None or (size, own["t"]) > best[:2]):
                    best = (size, own["t"], name, cost)
    if best is None:
        return {"draws": 0, "allowed": allowed}
    size, t, name, cost = best
    ours = -(files[name][0]["right"][:size].logsumexp(0) - torch.tensor(float(size)).log())
    members = ensemble["right"]
    theirs = -(members.logsumexp(0) - torch.tensor(float(len(members))).log())
    return {
        "draws": size,
        "t": t,
        "seconds": cost,
        "allowed": allowed,
        "nll": by_image(ours, theirs),
    }


def _entropy(logs: Tensor) -> Tensor:
    return -(logs.exp() * logs).sum(-1)
