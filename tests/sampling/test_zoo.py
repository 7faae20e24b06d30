"""Every model of the zoo: predictions are the module's own, the model is untouched."""

from __future__ import annotations

import copy
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import dims
from cases import slow
from zoo import REFUSED, ZOO, Case, KeywordModel, MaskBranching, batch_of_words, classes

pytestmark = pytest.mark.usefixtures("without_shape_checks")

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def fingerprint(model: nn.Module) -> list[Any]:
    """All that sampling could change: values, classes of layers, modes, flags."""
    parts = [(name, type(part), part.training) for name, part in model.named_modules()]
    flags = [(name, p.requires_grad, id(p)) for name, p in model.named_parameters()]
    values = [(name, value.tolist()) for name, value in model.state_dict().items()]
    return [parts, flags, values]


def own_outputs(case: Case, draws: dims.Draws) -> Tensor:
    """Outputs of the user's module with the weights of each draw, called as the user calls it."""
    found = []
    for row in draws.parameters:
        module = copy.deepcopy(case.model)
        for name, value in draws.surface.vector.unflatten(row).items():
            module.get_parameter(name).data.copy_(value)
        with torch.no_grad():
            outputs = case.call(module)
        found.append(outputs.unsqueeze(-1) if outputs.ndim == 1 else outputs.flatten(1))
    return torch.stack(found)


# Others of the same kind are always tested; likelihoods also by tests of their own.
VARIANTS = {
    "MLP, GELU",
    "MLP, PReLU",
    "CNN, GroupNorm",
    "CNN, LayerNorm",
    "CNN, max pooling",
    "GRU",
    "LSTM, two layers, two directions",
    "transformer encoder",
    "noise for each output",
    "noise from the input",
    "Student-t noise",
    "counts",
    "several labels",
    "ordered classes",
}


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning", "ignore::dims.BatchingWarning")
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's word for a slow rule
@pytest.mark.parametrize("name", [slow(name) if name in VARIANTS else name for name in ZOO])
def test_the_zoo(name: str) -> None:
    torch.manual_seed(0)
    case = ZOO[name]()
    before = fingerprint(case.model)
    posterior = dims.fit(
        case.model,
        (case.inputs, case.targets),
        case.likelihood,
        curvature="diagonal",
        tune=False,
        parameters=case.parameters,
    )
    draws = posterior.sample(2, max_time=0.1, settle="none", certify=False, progress=False)
    predictive = draws.predict(case.inputs)
    expected = posterior.surface.likelihood.predictive(own_outputs(case, draws))
    torch.testing.assert_close(predictive.samples, expected.samples, rtol=1e-5, atol=1e-5)
    assert (draws.parameters - posterior.map_parameters).abs().max() > 1e-3  # they moved
    finished = [status is dims.Status.FINISHED for status in draws.status]
    assert all(finished) or case.kinks
    assert draws.energy_violation.max() <= 1e-2
    assert fingerprint(case.model) == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_to_do(name: str) -> None:
    build, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        dims.fit(build(), (torch.zeros(4, 3), torch.zeros(4).long()), "classification", tune=True)
    assert f"| {name} |" in PAGE.read_text(encoding="utf-8")
    assert message in PAGE.read_text(encoding="utf-8")


def test_the_page_lists_the_zoo() -> None:
    assert len(ZOO) >= 30
    assert len(REFUSED) <= 6
    listed = re.findall(r"^\| ([^|]+) \| (?!refused)", PAGE.read_text(encoding="utf-8"), re.M)
    assert set(ZOO) <= set(listed)


class Sentences(Dataset[dict[str, Tensor]]):
    """Points as dicts with labels, as Hugging Face's data sets give them."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.batch = {**batch_of_words(), "labels": classes()}

    def __len__(self) -> int:
        return len(self.batch["labels"])

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: values[index] for name, values in self.batch.items()}


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
def test_batches_with_labels_go_all_the_way() -> None:
    """A DataLoader, a Dataset and one dict are the same data."""
    sentences = Sentences()
    model = KeywordModel()
    given = [DataLoader(sentences, batch_size=3), sentences, sentences.batch]
    posteriors = [
        dims.fit(model, data, "classification", prior_precision=1.0, tune=True) for data in given
    ]
    gradients = [posterior.gradient for posterior in posteriors]
    assert torch.equal(gradients[0], gradients[1])
    assert torch.equal(gradients[0], gradients[2])
    draws = posteriors[0].sample(2, "la", progress=False)
    batch = next(iter(given[0]))
    found = draws.predict(batch)  # its labels are left out
    labels = batch.pop("labels")
    torch.testing.assert_close(found.mean, draws.predict(batch).mean)
    assert set(found.metrics(labels)["ensemble"]) >= {"nll", "accuracy"}
    with torch.no_grad():
        trained = model(**batch, labels=labels)
    network = dims.Draws.from_parameters(posteriors[0].surface, posteriors[0].map_parameters[None])
    torch.testing.assert_close(network.predict(batch).mean, torch.softmax(trained.logits, -1))
    nll = network.predict(batch).metrics(labels)["ensemble"]["nll"]
    assert nll == pytest.approx(float(trained.loss), rel=1e-5)


def test_dicts_that_do_not_fit_are_named() -> None:
    model = KeywordModel()
    with pytest.raises(TypeError, match="targets as 'labels', got input_ids"):
        dims.fit(model, {"input_ids": torch.ones(3, 4).long()}, "classification", tune=True)
    batches = [{"input_ids": torch.ones(2, n).long(), "labels": torch.zeros(2)} for n in (3, 4)]
    with pytest.raises(ValueError, match=r"different shapes, \[\(3,\), \(4,\)\]; pad"):
        dims.fit(model, DataLoader(batches, batch_size=None), "classification", tune=True)


@pytest.mark.parametrize("name", ["branch on a value"])
def test_a_network_that_cannot_be_batched_is_warned_of_once(name: str) -> None:
    torch.manual_seed(0)
    case = ZOO[name]()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        posterior = dims.fit(case.model, (case.inputs, case.targets), case.likelihood, tune=False)
        posterior.sample(2, "la", progress=False).predict(case.inputs)
    assert len([w for w in seen if w.category is dims.BatchingWarning]) == 1


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning", "ignore::dims.BatchingWarning")
def test_a_branch_on_the_data_leaves_draws_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops the batch of points in Jacobians, which must not stop that of the weights."""
    torch.manual_seed(0)
    case = ZOO["branch on the data"]()
    posterior = dims.fit(
        case.model, (case.inputs, case.targets), case.likelihood, curvature="diagonal", tune=False
    )
    draws = posterior.sample(4, max_time=0.1, settle="none", certify=False, progress=False)
    calls = []
    forward = MaskBranching.forward

    def counted(model: MaskBranching, words: Tensor) -> Tensor:
        calls.append(len(words))
        return forward(model, words)

    monkeypatch.setattr(MaskBranching, "forward", counted)
    draws.predict(case.inputs)
    assert calls.count(len(case.inputs)) == 1  # the others are checks on a few points
