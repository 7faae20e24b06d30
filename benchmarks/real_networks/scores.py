"""Scores of every method on CIFAR-10 from its predictions; needs no GPU."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dims.prediction.stacking import stack
from dims_paper.cache import read_json, write_json
from real_networks.comparing import (
    auroc,
    auroc_difference,
    by_image,
    calibration_difference,
    calibration_error,
    entropy,
    hits,
    right_nll,
)
from real_networks.corruptions import KINDS, STRENGTHS
from real_networks.images import Collection
from real_networks.predictions import average, load

EARLIEST = 1.0  # averages over times begin here


@dataclass(frozen=True, eq=False)
class Method:
    """Averaged log-probabilities of one method, and what it cost."""

    name: str
    kind: str
    network: int | None  # where it started; None: several
    draws: int
    seconds: float
    answers: dict[str, Tensor]  # (N, 10) each; "corrupted" (30, N, 10)
    facts: dict[str, Any]


def methods(folder: Path, labels: Tensor) -> list[Method]:
    """All that the files give: single methods, ensembles of 1, 2, …, averages over times."""
    files = {path.stem: load(folder, path.stem) for path in sorted(folder.glob("*.json"))}
    members = any(name.startswith("member_") for name in files)
    found = [*_members(files, labels)] if members else []
    found += [*_draws(files), *_weighted(files, labels), *_others(files)]
    return sorted(found, key=lambda method: (method.kind, method.network or 0, method.seconds))


def _members(files: dict[str, Any], held_labels: Tensor) -> Iterator[Method]:
    names = sorted((n for n in files if n.startswith("member_")), key=lambda n: int(n[7:]))
    seconds = 0.0
    for count, name in enumerate(names, start=1):
        seconds += files[name][1]["seconds"]
        parts = [files[other][0] for other in names[:count]]
        joined = {key: torch.cat([part[key] for part in parts]) for key in _looks(parts[0])}
        answers = {key: average(logs) for key, logs in joined.items()}
        answers["corrupted"] = average(torch.stack([part["corrupted"] for part in parts]))
        yield Method(f"ensemble of {count}", "ensemble", None, count, seconds, answers, {})
    for name in names[:2]:
        answers, record = files[name]
        number = record["network"]
        single = {key: average(answers[key]) for key in _looks(answers)}
        single["corrupted"] = answers["corrupted"].log_softmax(-1)
        facts = {"training_seconds": record["seconds"]}
        yield Method("network", "network", number, 1, record["seconds"], single, facts)
        heat = temperature(single["held_out"], held_labels)
        cooled = {key: (logs / heat).log_softmax(-1) for key, logs in single.items()}
        facts = {"temperature": heat}
        yield Method("temperature", "temperature", number, 1, record["seconds"], cooled, facts)


def _draws(files: dict[str, Any]) -> Iterator[Method]:
    """DiMS at each time, the average over times, and both networks' draws together."""
    looks: dict[tuple[str, int], list[tuple[float, str]]] = {}
    for name, (_, record) in files.items():
        match = re.fullmatch(r"(dims|pilot)_(.+)_(\d+)_(t[\d.]+|stopped\d+s)", name)
        if match and match[4].startswith("t"):
            key = (f"{match[1]} {match[2]}", int(match[3]))
            looks.setdefault(key, []).append((record["t"], name))
        elif match:  # rows have times of their own
            ends = dict.fromkeys(f"{record[end]:.2g}" for end in ("t", "latest"))
            setting = f"{match[1]} {match[2]} t = {' to '.join(ends)}"
            yield _joined(setting, int(match[3]), [files[name]], record["t"])
    for (setting, network), rows in looks.items():
        rows.sort()
        late = [row for row in rows if row[0] >= EARLIEST]
        for t, name in rows:
            yield _joined(f"{setting} t = {t:g}", network, [files[name]], t)
        if len(late) > 1:
            parts = [files[name] for _, name in late]
            yield _joined(f"{setting} t ≥ {EARLIEST:g}", network, parts, late[-1][0])
    for setting in {setting for setting, _ in looks}:
        both = [sorted(rows) for (other, _), rows in looks.items() if other == setting]
        if len(both) > 1 and len({rows[-1][0] for rows in both}) == 1:
            ends = [files[rows[-1][1]] for rows in both]
            name = f"{setting} from {len(both)} networks"
            yield _joined(name, None, ends, both[0][-1][0], add=True)


def _weighted(files: dict[str, Any], held_labels: Tensor) -> Iterator[Method]:
    """The network and its draws at each time, weighted by held-out images as `dims.fit` does."""
    parts: dict[tuple[str, int], dict[Hashable, Any]] = {}
    for name, (_, record) in sorted(files.items(), key=lambda item: item[1][1].get("t", 0.0)):
        match = re.fullmatch(r"dims_(.+)_(\d+)_t[\d.]+", name)
        kind = "averaged" if match and match[1].endswith("_averaged") else "member"
        if match and f"{kind}_{match[2]}" in files:
            start = {"network": files[f"{kind}_{match[2]}"]}
            parts.setdefault((match[1], int(match[2])), start)[record["t"]] = files[name]
    for (setting, network), group in parts.items():
        answers, records = zip(*group.values(), strict=True)
        held = [right_nll(average(each["held_out"]), held_labels) for each in answers]
        weights = stack(-torch.stack(held, dim=1), [*group]).group_weights
        shared = [key for key in answers[0] if all(key in each for each in answers)]
        mixed = {key: _mixed(key, answers, weights.values()) for key in shared}
        shown = {str(name): weight for name, weight in weights.items()}
        draws = sum(record["draws"] for record in records)
        cost = records[-1]["seconds"] + records[-1]["training_seconds"]
        facts = {**records[-1], "weights": shown}
        yield Method(f"dims {setting} weighted", "dims", network, draws, cost, mixed, facts)


def _mixed(key: str, answers: Iterable[dict[str, Tensor]], weights: Iterable[float]) -> Tensor:
    """Σ w·p; of corrupted images averages over draws are known, of others each draw."""
    averaged = (lambda logs: logs.log_softmax(-1)) if key == "corrupted" else average
    parts = torch.stack([averaged(each[key]) for each in answers])
    logs = torch.tensor([*weights]).double().log()
    return (parts + logs.view(-1, *(1,) * (parts.ndim - 1))).logsumexp(0).log_softmax(-1)


def _joined(
    name: str, network: int | None, parts: list[Any], t: float, add: bool = False
) -> Method:
    """The average of several files; seconds are those of the last, or of all together."""
    keys = _looks(parts[0][0])
    answers = {key: average(torch.cat([part[0][key] for part in parts])) for key in keys}
    corrupted = [part[0]["corrupted"] for part in parts if "corrupted" in part[0]]
    if corrupted:
        answers["corrupted"] = average(torch.stack(corrupted))
    records = [part[1] for part in parts]
    costs = [record["seconds"] + record["training_seconds"] for record in records]
    facts = {**records[-1], "t": t}
    seconds = sum(costs) if add else max(costs)
    draws = sum(record["draws"] for record in records)
    return Method(name, name.split()[0], network, draws, seconds, answers, facts)


def _others(files: dict[str, Any]) -> Iterator[Method]:
    for name, (answers, record) in files.items():
        kind = re.fullmatch(r"(swag|averaged|last_layer(?:_averaged)?|cyclical|dropout)_\d+", name)
        if kind:
            single = {key: average(answers[key]) for key in _looks(answers)}
            if "corrupted" in answers:
                single["corrupted"] = answers["corrupted"].log_softmax(-1)
            cost = record["seconds"] + record.get("training_seconds", 0.0)
            number = record.get("network", int(name[-1]))
            yield Method(kind[1], kind[1], number, record["draws"], cost, single, record)


def _looks(answers: dict[str, Tensor]) -> list[str]:
    return [name for name in answers if name != "corrupted"]


def temperature(logs: Tensor, labels: Tensor) -> float:
    """The T of softmax(logits/T) that held-out images find likeliest."""
    grid = torch.linspace(0.5, 4.0, 141)
    nll = [float(right_nll((logs / t).log_softmax(-1), labels).mean()) for t in grid]
    return float(grid[int(torch.tensor(nll).argmin())])


def scores(method: Method, images: Collection) -> dict[str, Any]:
    """One row of the table."""
    labels, test = images.test.labels, method.answers["test"]
    inside = entropy(test)
    ood = {key[4:]: entropy(logs) for key, logs in method.answers.items() if key[:4] == "ood_"}
    row: dict[str, Any] = {
        "name": method.name,
        "kind": method.kind,
        "network": method.network,
        "draws": method.draws,
        "seconds": method.seconds,
        "accuracy": float(hits(test, labels).mean()),
        "nll": float(right_nll(test, labels).mean()),
        "ece": calibration_error(test, labels),
        "auroc": {name: auroc(inside, outside) for name, outside in ood.items()},
        "held_out_nll": float(right_nll(method.answers["held_out"], images.held_out.labels).mean()),
        "nll_cooled": float(right_nll(cooled(method, images), labels).mean()),
        "facts": {k: v for k, v in method.facts.items() if k in KEPT_FACTS},
    }
    if "corrupted" in method.answers:
        row["corrupted"] = _corrupted(method.answers["corrupted"], labels)
    return row


def cooled(method: Method, images: Collection) -> Tensor:
    """Log-probabilities of the test images at the temperature that held-out images choose."""
    heat = temperature(method.answers["held_out"], images.held_out.labels)
    return (method.answers["test"] / heat).log_softmax(-1)


KEPT_FACTS = (
    "t", "temperature", "rate", "masks", "evaluations", "refreshes", "energy_violation",
    "gradient_seconds", "peak_memory", "start_seconds", "training_seconds", "motion", "weights",
)  # fmt: skip


def _corrupted(logs: Tensor, labels: Tensor) -> dict[str, list[float]]:
    """Means over the kinds, for each strength."""
    each = logs.view(len(KINDS), len(STRENGTHS), *logs.shape[1:])
    few = labels[: each.shape[2]]
    numbers = {"accuracy": hits, "nll": right_nll}
    found = {
        name: [
            float(torch.stack([number(kind[s], few).mean() for kind in each]).mean())
            for s in range(len(STRENGTHS))
        ]
        for name, number in numbers.items()
    }
    found["ece"] = [
        sum(calibration_error(kind[s], few) for kind in each) / len(KINDS)
        for s in range(len(STRENGTHS))
    ]
    return found


def differences(ours: Method, theirs: Method, images: Collection) -> dict[str, Any]:
    """Every column of ours less theirs, with intervals paired by image."""
    labels = images.test.labels
    a, b = ours.answers, theirs.answers
    found: dict[str, Any] = {
        "accuracy": by_image(hits(a["test"], labels), hits(b["test"], labels)),
        "nll": by_image(right_nll(a["test"], labels), right_nll(b["test"], labels)),
        "nll_cooled": by_image(*(right_nll(cooled(m, images), labels) for m in (ours, theirs))),
        "ece": calibration_difference(a["test"], b["test"], labels),
    }
    for key in a:
        if key.startswith("ood_"):
            pairs = [(entropy(x["test"]), entropy(x[key])) for x in (a, b)]
            found[f"auroc {key[4:]}"] = auroc_difference(pairs[0], pairs[1])
    return {"ours": ours.name, "theirs": theirs.name, "network": ours.network, **found}


def write(folder: Path, images: Collection, out: Path) -> None:
    """Score all methods of a folder; differences between DiMS and each opponent.

    Of the ensembles the largest is an opponent.
    """
    found = methods(folder / "predictions", images.held_out.labels)
    rows = [scores(method, images) for method in found]
    largest = max((m.draws for m in found if m.kind == "ensemble"), default=0)
    compared = []
    for ours in (m for m in found if m.kind == "dims"):
        for theirs in found:
            same = theirs.network == ours.network
            if theirs.kind == "ensemble":
                same = theirs.draws == largest > 1
            if same and theirs.kind not in ("dims", "pilot"):
                compared.append(differences(ours, theirs, images))
    extra = {
        name: read_json(folder / f"{name}.json")
        for name in ("probe", "rates")
        if (folder / f"{name}.json").exists()
    }
    write_json(out, {"methods": rows, "differences": compared, **extra}, indent=None)
