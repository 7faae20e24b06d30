"""What estimators refuse before they train, and several quantiles at once."""

from __future__ import annotations

import numpy as np
import pytest

from dims.estimators import DimsClassifier, DimsRegressor, base
from dims.estimators.care import complaint_about


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"method": "sgd"}, "method: 'sgd' is unknown"),
        ({"prior_precision": -1.0}, "prior_precision: must be finite and not negative"),
        ({"friction": -1.0}, "friction"),
        ({"settle": "later"}, "settle"),
        ({"method": "la", "friction": 0.1}, "friction"),
    ],
)
def test_settings_are_refused_before_training(setting, told, monkeypatch):
    def never(*_, **__):
        raise AssertionError("trained")

    monkeypatch.setattr(base, "trained", never)
    x = np.linspace(-1, 1, 40)[:, None]
    with pytest.raises(ValueError, match=told):
        DimsRegressor(**setting).fit(x, x[:, 0])


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_several_quantiles_are_those_of_each(monkeypatch):
    x = np.linspace(-1, 1, 40)[:, None]
    y = np.sin(3 * x[:, 0])
    model = DimsRegressor(hidden=(4,), epochs=50, draws=3, max_time=0.1, random_state=0).fit(x, y)
    both = model.quantile(x[:5], [0.1, 0.9])
    assert both.shape == (5, 2)
    np.testing.assert_array_equal(both[:, 0], model.quantile(x[:5], 0.1))
    np.testing.assert_array_equal(both[:, 1], model.quantile(x[:5], 0.9))
    two = DimsRegressor(hidden=(4,), epochs=50, draws=3, max_time=0.1, random_state=0)
    two.fit(x, np.stack([y, -y], axis=1))
    assert two.quantile(x[:5], [0.1, 0.5, 0.9]).shape == (5, 2, 3)


@pytest.mark.parametrize(("evidence", "word"), [(-193.0, "lower"), (0.4, "higher")])
def test_a_complaint_says_which_evidence_is_higher(evidence, word):
    found = {"evidence_over_constant": evidence, "gain_on_training_rows": 0.1, "rows": 0.0}
    assert f"{abs(evidence):.1f} nats {word}" in complaint_about(found, "regression")


@pytest.mark.parametrize("kind", [DimsRegressor, DimsClassifier])
def test_gaps_are_answered_with_what_to_do(kind):
    x = np.array([[1.0], [np.nan], [3.0], [4.0]])
    with pytest.raises(ValueError, match="Input X contains NaN") as told:
        kind().fit(x, [0, 1, 0, 1])
    assert "SimpleImputer" in str(told.value)
    assert "HistGradient" not in str(told.value)


@pytest.mark.filterwarnings("ignore::dims.DimsWarning")
def test_the_summary_says_in_which_units_a_noise_is():
    x = np.linspace(-1, 1, 40)[:, None]
    model = DimsRegressor(hidden=(4,), epochs=50, draws=3, max_time=0.1, random_state=0)
    assert "in units of standardised targets" in model.fit(x, 7 * x[:, 0]).draws_.summary()
