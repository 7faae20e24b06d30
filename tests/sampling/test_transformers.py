"""A classifier of Hugging Face's `transformers` with random weights, from loader to predictions.

Nothing is downloaded: the model is made from its configuration, and the tokens are random.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import dims

pytestmark = pytest.mark.usefixtures("without_shape_checks")

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
POINTS, LENGTH, CLASSES = 12, 6, 3


def sentences() -> list[dict[str, Tensor]]:
    """Points as dicts; every other sentence is padded with 0."""
    ids = torch.randint(1, 50, (POINTS, LENGTH))
    ids[::2, 4:] = 0
    return [
        {"input_ids": row, "attention_mask": (row > 0).long(), "labels": row[0] % CLASSES}
        for row in ids
    ]


def bert() -> nn.Module:
    transformers = pytest.importorskip("transformers")  # seconds, of no use to other tests
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        num_labels=CLASSES,
        initializer_range=0.3,  # with the usual 0.02 all sentences have nearly the same logits
    )
    return transformers.BertForSequenceClassification(config).eval()


@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
def test_a_bert_classifier_goes_all_the_way() -> None:
    torch.manual_seed(0)
    model = bert()
    before = copy.deepcopy(model)
    loader = DataLoader(sentences(), batch_size=5)
    with pytest.warns(dims.BatchingWarning, match="data-dependent control flow"):  # on the mask
        posterior = dims.fit(model, loader, "classification", curvature="diagonal", tune=False)
    draws = posterior.sample(3, max_time=0.1, settle="none", certify=False, progress=False)
    assert all(status is dims.Status.FINISHED for status in draws.status)
    assert draws.energy_violation.max() <= 1e-2
    assert (draws.parameters - posterior.map_parameters).abs().max() > 1e-3  # they moved

    batch = next(iter(loader))
    found = draws.predict(batch).samples
    del batch["labels"]
    with torch.no_grad():
        own = [draws.to_module(i)(**batch).logits.softmax(-1) for i in range(3)]
    torch.testing.assert_close(found, torch.stack(own), rtol=1e-5, atol=1e-5)
    assert found.std(dim=1).min() > 1e-3  # sentences differ, so a mixed-up batch would show

    assert not any(part.training for part in model.modules())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    torch.testing.assert_close(model.state_dict(), before.state_dict(), rtol=0.0, atol=0.0)
    assert re.search(r"^\| BERT of `transformers` \|", PAGE.read_text(encoding="utf-8"), re.M)
