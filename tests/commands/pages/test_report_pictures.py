"""Inputs that are images are shown as such where draws disagree."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from report_problems import saved_draws
from torch import Tensor, nn

import dims
from dims.commands.pages.answers import Answers, add_predictions
from dims.commands.pages.pictures import checked_pictures, is_images, pictures
from dims.commands.pages.predicted import predicted
from dims.commands.pages.read import read_page
from dims.model.training_data import TrainingData


def shown(entry: list) -> Tensor:
    """The pixels of a picture as another program reads them, (H, W, C) or (H, W)."""
    with Image.open(io.BytesIO(base64.b64decode(entry[0]))) as image:
        return torch.from_numpy(np.array(image)).reshape(image.height, image.width, -1)


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_the_inputs(channels: int) -> None:
    pixels = torch.randint(0, 256, (5, channels, 6, 9))
    pixels[3, :, 0, 0], pixels[1, :, 0, 0] = 0, 255
    made = pictures(pixels.double() / 60 - 2, [3, 1], [("a", 1), ("b", 2)])
    assert [entry[1:] for entry in made] == [["a", 1], ["b", 2]]
    for entry, row in zip(made, (3, 1), strict=True):
        assert torch.equal(shown(entry).long(), pixels[row].permute(1, 2, 0))


def test_tables_of_numbers_are_no_images() -> None:
    assert is_images(torch.zeros(2, 3, 8, 8))
    for other in (torch.zeros(2, 8), torch.zeros(2, 5, 8, 8), torch.zeros(2, 3, 2, 2)):
        assert not is_images(other)
    assert not is_images(torch.zeros(2, 3, 8, 8, dtype=torch.int64))
    assert not is_images({"pixels": torch.zeros(2, 3, 8, 8)})


def of_images() -> dict:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 5 * 5, 3)).double()
    network.class_names = ["cat", "dog", "<b>frog</b>"]  # type: ignore[assignment]
    images, labels = torch.randn(30, 3, 5, 5, dtype=torch.float64), torch.arange(30) % 3
    surface = dims.LossSurface(network, (images, labels), "classification")
    thetas = surface.initial + 0.3 * torch.randn(4, surface.size, dtype=torch.float64)
    draws = dims.Draws.from_parameters(surface, thetas)
    return predicted(draws, surface.data, TrainingData(images, labels))


def test_a_page_of_images_shows_them_and_not_their_numbers() -> None:
    found = json.loads(json.dumps(of_images()))
    made = Answers()
    add_predictions(made, found)
    rows = next(table["rows"] for table in made.tables if table["id"] == "disagreement")
    assert [entry[1] for entry in made.sections["pictures"]] == [row[0] for row in rows]
    assert {entry[3] for entry in made.sections["pictures"]} <= {"cat", "dog", "<b>frog</b>"}
    assert made.sections["picture_classes"] is True
    assert len(rows[0]) == 5  # no columns of pixels


def test_what_is_not_base64_does_not_enter_a_page() -> None:
    with pytest.raises(ValueError, match="base64"):
        checked_pictures([['"><script>', 1]])


@pytest.mark.slow
def test_a_browser_shows_every_picture_and_its_caption(look, tmp_path) -> None:
    found, saved = of_images(), saved_draws(tmp_path)
    saved.with_suffix(".predictions.json").write_text(json.dumps(found))
    steps = """
      const shown = [...document.querySelectorAll("#pictures img")];
      return { sizes: shown.map((image) => image.naturalWidth),
               text: document.querySelector("#pictures").innerText };
    """
    seen = look(read_page(saved), steps, width=420)
    assert seen["sizes"] == [5] * 20
    assert seen["wide"] <= 420
    assert "<b>frog</b>" in seen["text"]
    assert "right" in seen["text"]
