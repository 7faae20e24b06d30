"""The noise of a regressor: chosen on rows that are left out, given, kept and shown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.pipeline import make_pipeline

import dims
from dims.estimators import tables
from dims.estimators.noise import SMALLEST, is_better
from dims.sampling.leave_one_out import leave_one_out

QUICK: dict[str, Any] = {"hidden": (6,), "method": "linla", "draws": 10, "random_state": 0}


def rows(count: int, ratio: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A line in units of hundreds, whose noise is `ratio` times as large where x > 0."""
    random = np.random.RandomState(seed)
    x = random.uniform(-1, 1, (count, 1))
    noise = 10 * np.where(x[:, 0] > 0, ratio, 1.0)
    return x, 100 * x[:, 0] + noise * random.randn(count), noise


@pytest.mark.parametrize(("ratio", "chosen"), [(1.0, "constant"), (6.0, "input")])
def test_the_noise_depends_on_the_row_where_that_predicts_better(ratio: float, chosen: str) -> None:
    x, y, _ = rows(200, ratio)
    model = dims.DimsRegressor(**QUICK).fit(x, y)
    assert model.noise_ == chosen
    new, targets, noise = rows(2000, ratio, seed=1)
    away = np.abs(new[:, 0]) > 0.3  # the noise jumps at 0
    _, found = model.predict(new[away], return_std=True)
    least = SMALLEST * math.sqrt(np.square(noise).mean())
    assert np.abs(np.log(found / np.maximum(noise[away], least))).mean() < 0.25
    other = dims.DimsRegressor(**QUICK, noise="input" if chosen == "constant" else "constant")
    gain = model.score_samples(new, targets) - other.fit(x, y).score_samples(new, targets)
    assert gain.mean() > (0.2 if chosen == "input" else -0.01)


def test_few_rows_cannot_tell() -> None:
    """Below a hundred nothing is held out; the noise can still be asked for."""
    x, y, _ = rows(90, 6.0)
    assert dims.DimsRegressor(**QUICK).fit(x, y).noise_ == "constant"
    assert dims.DimsRegressor(**QUICK, noise="input").fit(x, y).noise_ == "input"


@pytest.mark.parametrize("settings", [{"refine": False}, {"curvature": "diagonal"}])
@pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
def test_without_scores_at_a_minimum_it_is_constant(settings: dict[str, Any]) -> None:
    x, y, _ = rows(200, 6.0)
    assert dims.DimsRegressor(**QUICK, **settings).fit(x, y).noise_ == "constant"


def test_the_choice_is_by_two_standard_errors_of_left_out_rows() -> None:
    x, y, _ = rows(150, 6.0)
    fitted = {
        noise: dims.DimsRegressor(**QUICK, noise=noise).fit(x, y).posterior_
        for noise in ("constant", "input")
    }
    scores = {
        noise: leave_one_out(each.surface, each.map_parameters, each.curvature).points.numpy()
        for noise, each in fitted.items()
    }
    gain = scores["input"] - scores["constant"]
    assert gain.mean() > 2 * gain.std(ddof=1) / math.sqrt(len(gain))
    assert is_better(fitted["input"], fitted["constant"])
    assert not is_better(fitted["constant"], fitted["input"])
    assert not is_better(fitted["input"], fitted["input"])


def test_it_is_nowhere_below_half_of_the_constant_one() -> None:
    """Of two targets, of the smaller of their noises; both keep their units."""
    x, y, _ = rows(150, 6.0)
    both = np.stack([y, 1000 - 5 * y], axis=1)
    constant = dims.DimsRegressor(**QUICK, noise="constant").fit(x, both)
    model = dims.DimsRegressor(**QUICK, noise="input").fit(x, both)
    stds = constant.posterior_.surface.likelihood.noise_stds
    smallest = model.draws_.surface.likelihood.min_noise_std
    assert smallest == pytest.approx(SMALLEST * min(stds), rel=1e-6)
    mean, std = model.predict(x, return_std=True)
    assert mean.shape == std.shape == both.shape
    assert std.min() > smallest * model.target_scale_.min()
    assert mean[:, 1] == pytest.approx(1000 - 5 * mean[:, 0], abs=150)


@pytest.mark.parametrize("noise", ["none", 0.1, ""])
def test_another_noise_is_refused(noise: Any) -> None:
    x, y, _ = rows(30, 1.0)
    with pytest.raises(ValueError, match=r"noise: expected one of 'constant', 'input' or None"):
        dims.DimsRegressor(noise=noise).fit(x, y)
    with pytest.raises(ValueError, match="noise: classes have none"):
        dims.DimsClassifier(noise="input").fit(x, y > 0)


def test_only_the_chosen_fit_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other one had to say would be about nothing that the user sees."""
    told: list[str] = []
    fit = dims.estimators.base.fit

    def warned(network: Any, data: Any, task: Any, **given: Any) -> Any:
        name = "constant" if task == "regression" else "input"
        told.append(name)
        dims.estimators.base.warnings.warn(f"about {name}", dims.DimsWarning, stacklevel=2)
        return fit(network, data, task, **given)

    monkeypatch.setattr(dims.estimators.base, "fit", warned)
    x, y, _ = rows(200, 6.0)
    with pytest.warns(dims.DimsWarning, match="about input") as caught:
        dims.DimsRegressor(**QUICK).fit(x, y)
    assert told == ["constant", "input"]
    assert [str(each.message) for each in caught] == ["about input"]


def test_train_gives_what_fit_would_sample() -> None:
    x, y, _ = rows(200, 6.0)
    model = dims.DimsRegressor(**QUICK)
    network, data, likelihood = model.train(x, y)
    fitted = dims.DimsRegressor(**QUICK).fit(x, y)
    assert likelihood == fitted.draws_.surface.likelihood
    assert torch.equal(data[0], fitted.posterior_.surface.data.inputs)
    start = torch.nn.utils.parameters_to_vector(network.parameters())
    assert torch.equal(start, fitted.posterior_.surface.initial)


def test_a_table_whose_rows_have_their_own_noise_is_kept_and_described(tmp_path, capsys) -> None:
    x, y, _ = rows(200, 6.0)
    lines = [f"{a:.4f},{b:.3f}" for (a,), b in zip(x, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *lines]))
    known = tables.read(tmp_path / "t.csv", {"x": "number"}, "y", "regression")

    def learned() -> Any:
        model = make_pipeline(tables.preparation({"x": "number"}), dims.DimsRegressor(**QUICK))
        return tables.learned(model, known, tmp_path / "kept")

    first, again = learned(), learned()
    assert "Not trained again" in capsys.readouterr().out
    features = first[:-1].transform(known.inputs)
    assert np.array_equal(
        first[-1].predict(features, return_std=True), again[-1].predict(features, return_std=True)
    )
    alone = [each[-1].network_only().predict(features) for each in (first, again)]
    assert np.array_equal(*alone)
    assert again[-1].noise_ == "input"
    predictive = first[-1].draws_.predict(torch.tensor(features))
    noise = predictive.aleatoric.sqrt().numpy() * first[-1].target_scale_[0]
    assert noise.min() < 0.8 * np.median(noise)
    said = tables.described(again, known)
    shown = f"median {np.median(noise):.3g}, least {noise.min():.3g}, the standard deviation"
    assert f"noise         {shown} that is left of 'y' and depends on the row\n" in said
