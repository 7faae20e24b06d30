"""`dims.compare` of regressions: the network has a fair noise, and the output says whose it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dims
from browser import Browser
from dims.commands.pages.html import write_page
from dims.commands.pages.read import read_page

QUIET: dict[str, Any] = {"draws": 3, "progress": False}


def part(seed: int, rows: int, outputs: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(rows, 1, generator=generator, dtype=torch.float64) * 4 - 2
    noise = torch.randn(rows, outputs, generator=generator, dtype=torch.float64)
    return x, torch.sin(2 * x) + noise * torch.tensor([0.3, 0.03][:outputs]).double()


def overfitted(outputs: int = 1) -> nn.Module:
    """Nearer to the rows that it has learned than to any others."""
    torch.manual_seed(0)
    layers = nn.Linear(1, 30), nn.Tanh(), nn.Dropout(0.05), nn.Linear(30, outputs)
    model = nn.Sequential(*layers).double().eval()
    x, y = part(0, 16, outputs)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(400):
        optimiser.zero_grad()
        (model(x) - y).square().mean().backward()
        optimiser.step()
    return model


def compared(model: nn.Module, outputs: int = 1, **options: Any) -> Any:
    rows = {"validation": part(1, 40, outputs), "test": part(2, 200, outputs)}
    likelihood = options.pop("likelihood", "regression")
    return dims.compare(model, part(0, 16, outputs), likelihood, **QUIET | rows | options)


def test_the_network_has_the_noise_of_rows_that_it_has_not_learned() -> None:
    model = overfitted()
    found = compared(model, methods=("temperature", "mc_dropout", "last_layer"))
    (xt, yt), (xv, yv), (x, y) = part(2, 200), part(1, 40), part(0, 16)
    with torch.no_grad():
        held_out = (model(xv) - yv).square().mean().sqrt()
        learned = (model(x) - y).square().mean().sqrt()
        own = torch.distributions.Normal(model(xt), held_out).log_prob(yt).mean()
    assert held_out > 1.5 * learned
    alone = found["network"]
    assert alone.noise_std == pytest.approx(float(held_out))
    assert found.nll("network").value == pytest.approx(-float(own))
    # A regression's temperature is its noise, so that nothing is left to choose.
    assert found["temperature"].nll == alone.nll
    assert found["mc_dropout"].noise_std > 1.2 * float(learned)
    assert found["last_layer"].noise_std < float(held_out)
    text = str(found)
    assert "noise" in text.splitlines()[0]
    assert (
        "NLL: nats a test row. All scores are in the units of the targets as they were given. The "
        "noise was chosen by the held-out rows (network, temperature, mc_dropout), by the evidence "
        "(last_layer)."
    ) in text


def test_each_output_has_its_own_noise() -> None:
    found = compared(overfitted(2), 2, methods=())
    model, (xv, yv), (xt, yt) = overfitted(2), part(1, 40, 2), part(2, 200, 2)
    with torch.no_grad():
        sizes = (model(xv) - yv).square().mean(0).sqrt()
        own = torch.distributions.Normal(model(xt), sizes).log_prob(yt).sum(-1).mean()
    assert found.nll("network").value == pytest.approx(-float(own))


def test_members_of_the_ensemble_have_a_noise_for_each_output() -> None:
    found = compared(overfitted(2), outputs=2, methods=("deep_ensemble",), members=2)
    (xv, yv), (xt, yt) = part(1, 40, 2), part(2, 200, 2)
    members = dims.train_ensemble(
        overfitted(2), part(0, 16, 2), "regression", 2, validation=(xv, yv), seed=0, progress=False
    )
    with torch.no_grad():
        known, fresh = (members.surface.predict(members.parameters, x) for x in (xv, xt))
    sizes = (known - yv).square().mean((0, 1)).sqrt()
    assert sizes[0] > 1.5 * sizes[1]
    own = torch.distributions.Normal(fresh, sizes).log_prob(yt).sum(-1)
    nll = -(own.logsumexp(0) - torch.tensor(2.0).log()).mean()
    assert found.nll("deep_ensemble").value == pytest.approx(float(nll))


def test_a_noise_that_was_given_stays_and_units_are_told() -> None:
    how = {"likelihood": dims.Gaussian(0.2), "methods": (), "target_scale": 1500.0}
    found = compared(overfitted(), **how)
    assert found["network"].noise_std == pytest.approx(300)
    assert found.units() == (
        "NLL: nats a test row. All scores are in the units of the targets before they were divided "
        "by 1500 (target_scale)."
    )


def test_the_page_speaks_of_coverage_against_levels(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    found = compared(overfitted(), methods=("last_layer",), store=folder, target_scale=2.0)
    page = read_page(folder)
    run = page["runs"][0]
    assert run["calibration_axes"] == ["level of the interval", "coverage"]
    assert run["calibration_note"].startswith("Share of targets in their interval, on 200 test ro")
    assert [(d["method"], d["dashed"]) for d in run["calibration"]] == [
        ("last-layer Laplace", False),
        ("network", True),
    ]
    assert ["units", found.units()] in page["facts"]


@pytest.mark.slow
def test_the_line_of_the_network_has_gaps_that_show_what_lies_below(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    compared(overfitted(), methods=("last_layer",), store=folder)
    page = read_page(folder)
    with Browser(tmp_path) as browser:
        browser.open(write_page(page, tmp_path / "page.html").as_uri(), 800, 900)
        lines = "[...document.querySelectorAll('#calibration svg svg path')]"
        dashed = f"{lines}.filter((p) => p.style.strokeDasharray).map((p) => p.textContent)"
        assert browser.evaluate(dashed) == ["network"]


def test_a_folder_whose_network_had_another_noise_is_another_comparison(tmp_path: Path) -> None:
    model, folder = overfitted(), tmp_path / "all"
    compared(model, methods=(), store=folder)
    manifest = json.loads((folder / "comparison.json").read_text())
    assert manifest.pop("noise") == "held-out rows"
    (folder / "comparison.json").write_text(json.dumps(manifest))
    with pytest.raises(dims.StoreError, match="of an earlier version"):
        compared(model, methods=(), store=folder)
