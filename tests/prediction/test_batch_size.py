"""Inputs that are streamed: the same predictions, and never more than a batch at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dims
from draws_problems import Pair, draws_of, problem, random_inputs


@pytest.mark.parametrize("method", ["dims", "linla"])
@pytest.mark.parametrize("kind", ["three outputs", "one logit", "four classes"])
def test_batches_change_nothing_but_memory(
    kind: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    surface, _ = problem(kind)
    x, draws = random_inputs(23, 3), draws_of(surface, method, rows=7)
    expected = draws.predict(x)
    sizes: list[int] = []
    network, convert = surface.network, surface.convert_inputs

    def spy(tensors: dict, inputs: Tensor, *module: nn.Module) -> Tensor:
        sizes.append(len(inputs))
        return network(tensors, inputs, *module)

    def converted(inputs: Tensor) -> Tensor:
        sizes.append(len(inputs))
        return convert(inputs)

    monkeypatch.setattr(surface, "network", spy)
    monkeypatch.setattr(surface, "convert_inputs", converted)
    for batch_size in (1, 10, 12, 23, 1000):
        sizes.clear()
        found = draws.predict(x, batch_size=batch_size)
        torch.testing.assert_close(found.samples, expected.samples, rtol=1e-12, atol=1e-14)
        # Nine copies of one point measure the memory of a point.
        assert max(size for size in sizes if size != 9) == min(batch_size, 23)


@pytest.mark.usefixtures("unchecked")
def test_arrays_on_disk_are_read_in_parts(tmp_path) -> None:
    surface, _ = problem("one output")
    draws, x = draws_of(surface), random_inputs(50, 3)
    np.save(tmp_path / "x.npy", x.numpy())
    mapped: Any = np.load(tmp_path / "x.npy", mmap_mode="c")
    torch.testing.assert_close(
        draws.predict(mapped, batch_size=8).samples, draws.predict(x).samples
    )


@pytest.mark.parametrize("as_dict", [True, False])
def test_inputs_of_several_parts_in_batches(as_dict: bool) -> None:
    torch.manual_seed(0)
    x, words = random_inputs(8, 2), torch.arange(24).reshape(8, 3) % 5
    inputs = {"x": x, "words": words} if as_dict else [x, words]
    surface = dims.LossSurface(Pair().double(), (inputs, torch.arange(8) % 2), "classification")
    draws = draws_of(surface)
    torch.testing.assert_close(
        draws.predict(inputs, batch_size=3).samples, draws.predict(inputs).samples
    )


@pytest.mark.usefixtures("unchecked")
def test_bad_batches_are_named() -> None:
    surface, x = problem("one output")
    draws = draws_of(surface)
    for size in (0, -1, 2.5):
        with pytest.raises(ValueError, match="batch_size: expected a whole number, at least 1"):
            draws.predict(x, batch_size=size)  # type: ignore[arg-type]
    nothing = x.clone()
    nothing[8, 1] = torch.nan
    for bad, message in [
        (nothing, "NaN or infinite values; impute"),
        (x[:0], "no points"),
        (x[:, :2], r"refuses them .*trained on points float\[3\], these are float\[2\]"),
        ([x, x[:2]], "different lengths"),
    ]:
        with pytest.raises(ValueError, match=message):
            draws.predict(bad, batch_size=4)
