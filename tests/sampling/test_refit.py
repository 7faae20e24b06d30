"""Held-out rows that weigh the draws and are learnt afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.model.training_data import TrainingData
from dims.sampling.engine import InProcess, Job, Work
from dims.sampling.progress import RunProgress
from draws_problems import mlp, problem, random_inputs

GIVEN = {"prior_precision": 1.0, "noise_std": 2.0, "refine": True, "progress": False}


def rows(count: int = 15) -> tuple[Tensor, Tensor]:
    return random_inputs(count, 3), random_inputs(count, 1)


def refit_posterior(**options: object) -> dims.Posterior:
    surface, _ = problem("one output")
    given = {"validation": rows(), "refit": True, **GIVEN, **options}
    return dims.fit(mlp(3, 1), tuple(surface.data), "regression", **given)


class Recorder(InProcess):
    """Computes in this process and writes down how many points and draws each chunk has."""

    chunks: ClassVar[list[tuple[int, int]]] = []

    def run(
        self, work: Work, jobs: Sequence[Job], progress: RunProgress
    ) -> Iterator[tuple[Job, dims.Draws]]:
        self.chunks.extend((work.start.surface.points, len(job.rows)) for job in jobs)
        return super().run(work, jobs, progress)


def linear(inputs: Tensor, targets: Tensor, **options: object) -> dims.Posterior:
    torch.manual_seed(0)
    model = nn.Linear(3, 1, bias=False, dtype=torch.float64)
    return dims.fit(model, (inputs, targets), "regression", **GIVEN, **options)


def test_a_linear_model_has_the_posterior_of_all_rows() -> None:
    """XᵀX/σ² + δ and its solution: as if the held-out rows had been given with the others."""
    (x, y), (more_x, more_y) = rows(20), (random_inputs(9, 3) + 1, random_inputs(9, 1) - 1)
    found = linear(x, y, validation=(more_x, more_y), refit=True)
    inputs, targets = torch.cat([x, more_x]), torch.cat([y, more_y])
    precision = inputs.T @ inputs / 4.0 + torch.eye(3, dtype=torch.float64)
    expected = torch.linalg.solve(precision, inputs.T @ targets / 4.0)[:, 0]
    torch.testing.assert_close(found.map_parameters, expected, rtol=1e-6, atol=1e-6)
    whole = linear(inputs, targets)
    assert found.log_marginal_likelihood == pytest.approx(whole.log_marginal_likelihood, abs=1e-6)
    torch.testing.assert_close(found.perturbations(3), whole.perturbations(3))


def test_each_row_counts_as_before() -> None:
    (x, y), more = rows(20), rows(10)
    found = linear(x, y, validation=more, refit=True, effective_points=40.0, loss_scale=0.5)
    assert found.before is not None
    assert found.surface.effective_points == 60.0
    assert found.surface.likelihood_scale == found.before.surface.likelihood_scale


def test_the_weights_are_those_of_draws_that_had_not_seen_the_rows() -> None:
    posterior = refit_posterior()
    before = posterior.before
    assert before is not None
    assert posterior.validation is None
    assert posterior.surface.points == before.surface.points + 15
    draws = posterior.sample(3, max_time=0.5, progress=False)
    unseen = before.sample(3, max_time=0.5, progress=False)
    assert draws.mixture is not None
    assert unseen.mixture is not None
    assert draws.mixture.refit
    assert not unseen.mixture.refit
    assert torch.equal(draws.mixture.weights, unseen.mixture.weights)
    assert draws.mixture.gain == unseen.mixture.gain
    assert torch.equal(draws.mixture.network, before.surface.initial)
    assert not torch.equal(draws.parameters, unseen.parameters)
    assert "have been learnt since" in posterior.summary()
    assert "the draws have learnt these rows since" in draws.summary()


def test_widened_draws_have_tangents_of_all_rows() -> None:
    surface, _ = problem("two logits")
    labels = torch.arange(12) % 2
    posterior = dims.fit(
        mlp(3, 2),
        tuple(surface.data),
        "classification",
        validation=(random_inputs(12, 3), labels),
        refit=True,
        progress=False,
    )
    draws = posterior.sample(2, max_time=0.3, progress=False)
    assert draws.mixture is not None
    assert draws.mixture.tangents is not None
    assert posterior.before is not None
    unseen = posterior.before.sample(2, max_time=0.3, progress=False).mixture
    assert unseen is not None
    assert unseen.tangents is not None
    assert torch.equal(draws.mixture.weights, unseen.weights)
    assert not torch.equal(draws.mixture.tangents, unseen.tangents)


def test_a_file_keeps_that_the_rows_were_learnt(tmp_path: Path) -> None:
    draws = refit_posterior().sample(2, max_time=0.3, progress=False)
    draws.save(tmp_path / "draws.safetensors")
    loaded = dims.load(tmp_path / "draws.safetensors", model=mlp(3, 1))
    assert loaded.mixture is not None
    assert loaded.mixture.refit
    x = random_inputs(4, 3)
    assert torch.equal(loaded.predict(x).mean, draws.predict(x).mean)


def test_a_store_holds_the_draws_of_all_rows(tmp_path: Path) -> None:
    posterior = refit_posterior()
    given = {"max_time": 0.3, "store": tmp_path, "progress": False}
    first, again = posterior.sample(2, **given), posterior.sample(2, **given)
    assert first.mixture is not None
    assert again.mixture is not None
    assert torch.equal(first.parameters, again.parameters)
    assert torch.equal(first.mixture.weights, again.mixture.weights)
    assert json.loads((tmp_path / "findings.json").read_text("utf-8"))["refit"]


def test_a_store_goes_on_with_the_draws_of_all_rows(tmp_path: Path) -> None:
    """More draws than before: the first stay, and the weights are those of a run at once."""
    posterior = refit_posterior()
    given = {"max_time": 0.3, "chunk_size": 2, "progress": False}
    first = posterior.sample(2, store=tmp_path / "in two", **given)
    more = posterior.sample(4, store=tmp_path / "in two", **given)
    whole = posterior.sample(4, store=tmp_path / "at once", **given)
    assert torch.equal(more.parameters[:2], first.parameters)
    assert torch.equal(more.parameters, whole.parameters)
    assert more.mixture is not None
    assert whole.mixture is not None
    assert more.mixture.refit
    assert torch.equal(more.mixture.weights, whole.mixture.weights)


def test_weighed_draws_are_few_and_made_as_the_others() -> None:
    posterior, engine = refit_posterior(), Recorder()
    engine.chunks.clear()
    assert posterior.before is not None
    posterior.sample(13, max_time=0.01, chunk_size=6, engine=engine, progress=False)
    unseen, seen = posterior.before.surface.points, posterior.surface.points
    assert engine.chunks == [(seen, 6), (seen, 6), (seen, 1), (unseen, 6), (unseen, 4)]


@pytest.mark.parametrize("curvature", ["diagonal", "kronecker", "low_rank"])
def test_other_curvatures_lead_to_the_same_minimum(curvature: str) -> None:
    full, other = refit_posterior(), refit_posterior(curvature=curvature)
    assert full.before is not None
    points = torch.stack([full.before.map_parameters, full.map_parameters, other.map_parameters])
    before, expected, found = full.surface.value(points).tolist()
    assert found < before - 0.1
    assert found == pytest.approx(expected, abs=1e-3)


def test_rows_that_cannot_weigh_leave_the_draws_as_they_are() -> None:
    posterior = refit_posterior()
    assert posterior.before is not None
    x, y = rows(3)
    unexplained = TrainingData(x, torch.full_like(y, 1e200))
    posterior = replace(posterior, before=replace(posterior.before, validation=unexplained))
    with pytest.warns(dims.StackingWarning, match="no density"):
        draws = posterior.sample(2, "la", progress=False)
    assert draws.mixture is None


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"validation": None}, "refit: there are no held-out rows"),
        ({"refine": False, "prior_precision": None, "tune": True}, "refit: it walks"),
        ({"refine": False}, "refit: it walks to the minimum"),  # nothing is left to tune
    ],
)
def test_what_cannot_be_fitted_again_is_refused(options: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        refit_posterior(**options)


def test_augmented_passes_are_refused() -> None:
    """Each of two passes counts by half; a held-out row would as well, and there is but one."""
    surface, _ = problem("one output")
    data = dims.augmented(torch.utils.data.TensorDataset(*surface.data), passes=2)
    with pytest.raises(ValueError, match="refit: the training data hold several augmented passes"):
        dims.fit(mlp(3, 1), data, "regression", validation=rows(), refit=True, **GIVEN)
