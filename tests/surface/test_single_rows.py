"""Gradients of one row after the other, against all rows at once and against whole weights."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

import dims
from dims.model.torch_support.convolution import has_wide_convolutions
from dims.model.torch_support.convolution_precision import in_precision, rounded, with_two_parts
from dims.surface.single_rows import channels_last, even_size


def small_network(channels: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1), nn.SiLU(), nn.GroupNorm(2, channels),
        nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.Tanh(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 3),
    )  # fmt: skip


def surface_of(network: nn.Module, points: int = 24) -> dims.LossSurface:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(points, 3, 8, 8, generator=generator)
    labels = torch.randint(3, (points,), generator=generator)
    return dims.LossSurface(network, (images, labels), "classification", 0.3, effective_points=10.0)


def some_rows(surface: dims.LossSurface, rows: int = 3) -> Tensor:
    noise = torch.randn(rows, surface.size, generator=torch.Generator().manual_seed(2))
    return surface.initial + 0.1 * noise


def test_one_row_after_the_other_gives_what_all_at_once_give() -> None:
    together = surface_of(small_network())
    alone = together.with_single_rows()
    thetas = some_rows(together)
    for ours, theirs in zip(
        alone.value_and_grad(thetas), together.value_and_grad(thetas), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(alone.value(thetas), together.value(thetas))
    torch.testing.assert_close(alone.outputs_on_data(thetas), together.outputs_on_data(thetas))
    assert not alone.in_one_piece(1)
    assert together.in_one_piece(1)  # the surface it came from is as it was


def test_weights_in_two_parts_lose_no_digits() -> None:
    # In float32 arithmetic both parts are exact, so nothing may change but rounding.
    surface = surface_of(small_network())
    thetas = some_rows(surface)
    parts = surface.with_single_rows("tf32x2").value_and_grad(thetas)
    whole = surface.with_single_rows("float32").value_and_grad(thetas)
    torch.testing.assert_close(parts[0], whole[0], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(parts[1], whole[1], rtol=1e-4, atol=1e-5)


def test_the_second_part_removes_the_error_that_all_images_share() -> None:
    """bfloat16 on the CPU: with rounded weights alone the loss is off by far more."""
    surface = surface_of(small_network(8), points=400)
    thetas = some_rows(surface)
    exact = surface.with_single_rows().value(thetas)
    two = surface.with_single_rows("bf16x2")
    two_parts = two.value_and_grad(thetas)[0]
    one_part = thetas.clone()
    chosen = two._data_gradient.in_two  # type: ignore[attr-defined]
    one_part[:, chosen] = rounded(thetas[:, chosen])
    without = two.value_and_grad(one_part)[0]
    assert (two_parts - exact).abs().mean() < 0.4 * (without - exact).abs().mean()


def test_two_parts_add_up_and_the_copy_shares_its_tensors() -> None:
    network = small_network()
    other, names = with_two_parts(network)
    assert names == ["0.weight", "3.weight"]
    assert other[0].weight.data_ptr() == network[0].weight.data_ptr()  # type: ignore[index]
    weight = torch.randn(1000)
    rest = weight - rounded(weight)
    assert torch.equal(rounded(weight) + rest, weight)
    assert rest.abs().max() <= weight.abs().max() * 2**-8


def test_precision_is_for_the_block_alone() -> None:
    before = torch.backends.cudnn.allow_tf32
    with in_precision("tf32", torch.device("cpu")):
        assert torch.backends.cudnn.allow_tf32
        assert not torch.is_autocast_enabled("cpu")
    with in_precision("bf16x2", torch.device("cpu")):
        assert not torch.backends.cudnn.allow_tf32
        assert torch.is_autocast_enabled("cpu")
    assert torch.backends.cudnn.allow_tf32 == before


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="precision: one of float32, tf32"):
        surface_of(small_network()).with_single_rows("half")


def test_what_cannot_be_compiled_is_computed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: object, function: object) -> object:
        def compiled(*_: object) -> None:
            raise RuntimeError("no compiler here\nand more")

        return compiled

    monkeypatch.setattr("dims.surface.single_rows.compile_for", refuse)
    surface = surface_of(small_network())
    thetas = some_rows(surface)
    single = surface.with_single_rows(compile=True)
    with pytest.warns(dims.BatchingWarning, match="no compiler here"):
        values, _ = single.value_and_grad(thetas)
    torch.testing.assert_close(values, surface.value(thetas))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single.value_and_grad(thetas)  # says so once


def test_motion_is_the_same() -> None:
    surface = surface_of(small_network())
    velocity = torch.randn(2, surface.size, generator=torch.Generator().manual_seed(3))
    ends = [
        dims.integrate(each, surface.initial, velocity, max_time=0.05, metric="moving").end
        for each in (surface, surface.with_single_rows())
    ]
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("points", "most", "expected"), [
    (50_000, 1700, 1250), (48_000, 1700, 1600), (10, 20, 10), (7, 3, 3), (9973, 1000, 1000),
])  # fmt: skip
def test_pieces_are_of_one_size_where_they_can_be(points: int, most: int, expected: int) -> None:
    assert even_size(points, most) == expected


def test_wide_convolutions_and_layout() -> None:
    assert not has_wide_convolutions(small_network(4))
    assert has_wide_convolutions(small_network(16))
    images = torch.zeros(2, 3, 4, 4)
    assert channels_last(images).is_contiguous(memory_format=torch.channels_last)
    table = torch.zeros(2, 3)
    assert channels_last(table) is table


def test_another_likelihood_enters_gradients_of_single_rows():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1).double()
    data = torch.randn(12, 3).double(), torch.randn(12, 1).double()
    surface = dims.LossSurface(model, data, dims.Gaussian(1.0)).with_single_rows()
    thetas = torch.randn(2, surface.size).double()
    changed = surface.with_settings(likelihood=dims.Gaussian(0.1))
    expected = dims.LossSurface(model, data, dims.Gaussian(0.1)).value_and_grad(thetas)
    for found, other in zip(changed.value_and_grad(thetas), expected, strict=True):
        torch.testing.assert_close(found, other)
