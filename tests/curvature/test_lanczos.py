"""Lanczos against dense eigenvalues: clusters, multiple eigenvalues, low rank, both signs."""

from __future__ import annotations

import pytest
import torch
from curvature_surfaces import dense_ggn, dense_hessian, surface_of
from torch import nn

from dims.curvature import fit_curvature
from dims.curvature.eigenpairs import Eigenpairs, leading_eigenpairs
from dims.curvature.low_rank import LowRankCurvature
from dims.errors import EigenpairsWarning
from dims.model.likelihoods import Categorical, Gaussian
from dims.surface.loss import LossSurface


def run(values: torch.Tensor, rank: int, **settings: float) -> tuple[Eigenpairs, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    size = len(values)
    axes, _ = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
    matrix = ((axes * values) @ axes.T).to(values.dtype)

    def start() -> torch.Tensor:
        return torch.randn(size, generator=generator, dtype=values.dtype)

    return leading_eigenpairs(lambda v: matrix @ v, start, rank, **settings), matrix


SPECTRA = {
    "decaying": 1.05 ** -torch.arange(300.0),
    "both signs": (-1.0) ** torch.arange(300) * 1.05 ** -torch.arange(300.0),
    "negative": -(1.05 ** -torch.arange(300.0)),
    "clustered": torch.cat([torch.linspace(1, 1.001, 30), torch.linspace(0, 0.5, 270)]),
    "every eigenvalue ten times": torch.arange(30.0, 0, -1).repeat_interleave(10),
    "rank 15": torch.cat([torch.arange(15.0, 0, -1), torch.zeros(285)]),
    "identity": torch.ones(300),
    "zero": torch.zeros(300),
}


@pytest.mark.parametrize("rank", [1, 30])
@pytest.mark.parametrize("name", list(SPECTRA))
def test_leading_eigenpairs_are_those_of_eigh(name: str, rank: int) -> None:
    values = SPECTRA[name].double()
    pairs, matrix = run(values, rank, tolerance=1e-8)
    order = values.abs().argsort(descending=True)[:rank]
    expected = values[order][values[order] != 0]
    assert pairs.converged
    torch.testing.assert_close(
        pairs.values.abs(), expected.abs(), rtol=1e-9, atol=1e-12 * float(values.abs().max())
    )
    torch.testing.assert_close(
        pairs.vectors.T @ pairs.vectors,
        torch.eye(len(expected), dtype=torch.float64),
        rtol=0,
        atol=1e-10,
    )
    residual = matrix @ pairs.vectors - pairs.vectors * pairs.values
    assert float(residual.norm()) <= 1e-7 * max(1.0, float(values.abs().max()))


@pytest.mark.parametrize(
    "name", ["decaying", "both signs", "every eigenvalue ten times", "rank 15"]
)
def test_float32_is_as_good_as_its_rounding(name: str) -> None:
    values = SPECTRA[name]
    pairs, _ = run(values, 30)
    expected = values[values.abs().argsort(descending=True)[:30]]
    expected = expected[expected != 0]
    assert pairs.converged
    torch.testing.assert_close(
        pairs.values.abs().float(), expected.abs(), rtol=1e-3, atol=1e-5 * float(values.abs().max())
    )


def test_more_pairs_than_dimensions() -> None:
    values = torch.arange(1.0, 8.0).double()
    pairs, _ = run(values, 100)
    torch.testing.assert_close(pairs.values.sort().values, values, rtol=1e-10, atol=0)


def test_too_few_products_are_reported() -> None:
    pairs, _ = run(torch.linspace(1, 2, 300).double(), 30, max_products=40)
    assert not pairs.converged
    assert pairs.products <= 40 + 20


def test_an_unconverged_low_rank_fit_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    surface = surface_of()
    monkeypatch.setattr(
        "dims.curvature.low_rank.leading_eigenpairs",
        lambda *_: Eigenpairs(torch.ones(1), torch.eye(surface.size, 1), False, 9),
    )
    with pytest.warns(EigenpairsWarning, match="smaller rank"):
        fit_curvature(surface, surface.initial, "low_rank")


@pytest.mark.parametrize("kind", ["ggn", "hessian"])
def test_low_rank_keeps_the_largest_curvatures_of_a_network(kind: str) -> None:
    surface = surface_of("cnn", "categorical")
    oracle = dense_ggn if kind == "ggn" else dense_hessian
    values, vectors = torch.linalg.eigh(oracle(surface, surface.initial))
    order = values.abs().argsort(descending=True)[:7]
    curvature = fit_curvature(surface, surface.initial, "low_rank", kind, rank=7)
    assert isinstance(curvature, LowRankCurvature)
    torch.testing.assert_close(curvature.eigenvalues, values[order], rtol=1e-6, atol=0)
    overlap = (vectors[:, order].T @ curvature.eigenvectors).abs()
    torch.testing.assert_close(overlap, torch.eye(7, dtype=torch.float64), rtol=0, atol=2e-3)


def test_independent_outputs_are_all_found() -> None:
    """A linear model of eight outputs has each eigenvalue eight times; one chain finds one each."""
    torch.manual_seed(0)
    features = torch.randn(40, 6, dtype=torch.float64)
    model = nn.Linear(6, 8, bias=False).double()
    surface = LossSurface(model, (features, torch.randn(40, 8)), Gaussian())
    curvature = fit_curvature(surface, surface.initial, "low_rank", rank=24)
    assert isinstance(curvature, LowRankCurvature)
    expected = torch.linalg.eigvalsh(features.T @ features).flip(0)[:3].repeat_interleave(8)
    torch.testing.assert_close(curvature.eigenvalues, expected, rtol=1e-8, atol=0)


def test_the_seed_decides_and_nothing_else() -> None:
    surface = surface_of("cnn", "categorical", torch.float32)
    fits = [fit_curvature(surface, surface.initial, "low_rank", rank=4, seed=s) for s in (1, 1, 2)]
    assert torch.equal(fits[0].dense(), fits[1].dense())
    assert not torch.equal(fits[0].dense(), fits[2].dense())
    torch.testing.assert_close(fits[0].dense(), fits[2].dense(), rtol=1e-3, atol=1e-3)


def test_a_lenet_of_44_000_parameters() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 84), nn.Tanh(), nn.Linear(84, 84), nn.Tanh(), nn.Linear(84, 10)),
    )
    points = 12
    data = torch.randn(points, 1, 28, 28), torch.randint(10, (points,))
    surface = LossSurface(model, data, Categorical())
    assert surface.size > 44_000
    # What it costs is measured by benchmarks/curvature.py.
    curvature = fit_curvature(surface, surface.initial, "low_rank")
    precision = curvature.precision(0.5)
    draws = precision.sample(3, torch.Generator().manual_seed(0))
    assert isinstance(curvature, LowRankCurvature)
    # The GGN of 12 points and 10 classes (softmax: 9 directions a point) has rank 108 at most.
    assert curvature.rank == 100
    assert torch.isfinite(draws).all()
    # Σ·(P·u) = u for u among the stiff directions, P·u by autograd rather than by the fit.
    direction = curvature.eigenvectors[:, 0]
    image = curvature.eigenvalues[0] * direction + 0.5 * direction
    torch.testing.assert_close(precision.solve(image), direction, rtol=1e-3, atol=1e-4)
