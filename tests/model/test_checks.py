"""Models that are not the function their users mean are refused, or announced, before sampling."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dims
from dims.errors import ModelWarning

pytestmark = pytest.mark.filterwarnings("ignore::dims.NotAMinimumWarning")
torch_double = {"dtype": torch.float64}


def points(classes: int = 3, count: int = 24) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 5, generator=generator, **torch_double)
    return x, torch.arange(count) % classes


def network(outputs: int, *more: nn.Module) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, outputs)).double()
    return nn.Sequential(*layers, *more).eval()


class Calls(nn.Module):
    """A network whose forward is a function of the network's outputs."""

    def __init__(self, outputs: int, function) -> None:
        super().__init__()
        self.network = network(outputs)
        self.function = function
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.network(x))


def surface(model: nn.Module, data: tuple[Tensor, Tensor] | None = None, **settings):
    return dims.LossSurface(model, data or points(), "classification", **settings)


class TestProbabilities:
    @pytest.mark.parametrize(
        ("model", "last"),
        [
            (network(3, nn.Softmax(-1)), "Softmax"),
            (nn.Sequential(network(3, nn.Softmax(-1)), nn.Identity()).eval(), "Softmax"),
            (Calls(3, lambda f: functional.softmax(f, -1)), "Softmax"),
            (network(3, nn.Sigmoid()), "Sigmoid, a probability for each label"),
            (network(1, nn.Sigmoid()), "Sigmoid"),
            (network(1, nn.Sigmoid(), nn.Flatten(0)), "Sigmoid"),
            (network(1, nn.LogSigmoid()), "LogSigmoid"),
            (Calls(1, torch.sigmoid), "Sigmoid"),
        ],
    )
    def test_a_last_operation_that_gives_them_is_refused(self, model, last):
        classes = 3 if model(points()[0]).shape[-1] == 3 else 2
        with pytest.raises(ValueError, match=f"ends in {last}.*with_logits"):
            dims.fit(model, points(classes), "classification", tune=True)

    def test_outputs_that_sum_to_one_are_refused_whatever_made_them(self):
        model = Calls(3, lambda f: f.exp() / f.exp().sum(-1, keepdim=True))
        with pytest.raises(ValueError, match=r"outputs are probabilities .*with_logits"):
            surface(model)

    def test_one_output_that_is_better_as_a_probability_is_announced(self):
        x, y = points(2)
        x = torch.cat([x[:, :4], (4.0 * y - 2).unsqueeze(-1).double()], -1)
        model = Calls(1, lambda f: 1 / (1 + (-f).exp()))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
            model.network[0].weight[0, 4] = 1.0
            model.network[2].weight[0, 0] = 3.0
        with pytest.warns(ModelWarning, match="better as probabilities"):
            surface(model, (x, y))

    def test_logits_between_0_and_1_pass(self):
        x, y = points(2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            surface(Calls(1, lambda f: 0.5 + 0 * f.sigmoid()), (x, y))

    def test_probabilities_are_no_sin_in_a_regression(self):
        x, _ = points()
        y = torch.rand(len(x), 1, **torch_double)
        dims.LossSurface(network(1, nn.Sigmoid()), (x, y), "regression")

    def test_log_probabilities_are_logits(self):
        """Softmax takes them back: the same loss, the same GGN and the same draws of LinLA."""
        plain, logged = (
            dims.fit(model, points(), "classification", prior_precision=1.0, tune=True)
            for model in (network(3), network(3, nn.LogSoftmax(-1)))
        )
        assert logged.log_marginal_likelihood == pytest.approx(
            plain.log_marginal_likelihood, rel=1e-10
        )
        torch.testing.assert_close(logged.curvature.dense(), plain.curvature.dense())
        for method in ("la", "linla"):
            first, second = (
                posterior.sample(3, method, progress=False).predict(points()[0]).probabilities
                for posterior in (plain, logged)
            )
            torch.testing.assert_close(first, second)

    @pytest.mark.parametrize(
        ("given", "outputs"),
        [
            (network(3, nn.Softmax(-1)), 3),
            (nn.Sequential(network(3, nn.Softmax(-1))).eval(), 3),
            (Calls(3, lambda f: f.softmax(-1)), 3),
            (network(1, nn.Sigmoid()), 1),
            (Calls(1, torch.sigmoid), 1),
            (Calls(1, lambda f: f.sigmoid().squeeze(-1)), 1),
        ],
    )
    def test_with_logits_has_the_posterior_of_the_logits(self, given, outputs):
        before = copy.deepcopy(given.state_dict())
        data = points(3 if outputs == 3 else 2)
        settings = {"prior_precision": 1.0}
        expected = dims.fit(network(outputs), data, "classification", **settings)
        found = dims.fit(dims.with_logits(given), data, "classification", **settings)
        torch.testing.assert_close(found.curvature.dense(), expected.curvature.dense())
        torch.testing.assert_close(found.gradient, expected.gradient)
        first, second = (
            posterior.sample(3, "linla", progress=False).predict(data[0]).probabilities
            for posterior in (found, expected)
        )
        torch.testing.assert_close(first, second)
        assert all(torch.equal(before[key], given.state_dict()[key]) for key in before)

    def test_logits_of_several_labels(self):
        """A probability of each label, not of classes that exclude each other."""
        x, _ = points()
        logits = dims.with_logits(Calls(3, torch.sigmoid), sigmoid=True)(x)
        torch.testing.assert_close(logits, network(3)(x))

    def test_saturated_probabilities_have_finite_logits(self):
        certain = Calls(1, lambda f: torch.sigmoid(1e5 * f))
        assert dims.with_logits(certain)(points()[0]).isfinite().all()


class Pooled(nn.Module):
    """A transformer that averages over all positions, padded ones too."""

    def __init__(self, masked_mean: bool) -> None:
        super().__init__()
        self.masked_mean = masked_mean
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        hidden = self.encoder(x, src_key_padding_mask=padding)
        if not self.masked_mean:
            return self.head(hidden.mean(1))
        kept = (~padding).unsqueeze(-1)
        return self.head(torch.where(kept, hidden, 0.0).sum(1) / kept.sum(1))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("masked_mean", [False, True])
def test_the_users_own_call_is_compared(masked_mean: bool) -> None:
    torch.manual_seed(0)
    model = Pooled(masked_mean).eval()
    x, padding = torch.randn(12, 6, 8), torch.zeros(12, 6, dtype=torch.bool)
    padding[:, 3:] = True
    inputs, labels = [x, padding], torch.arange(12) % 3
    if not masked_mean:
        with torch.no_grad():  # the oracle: torch's own two ways differ
            fused, plain = model(*inputs), None
        plain = model(*inputs)
        assert (fused - plain).abs().max() > 0.1
        with pytest.warns(ModelWarning, match="fused attention.*padded positions"):
            made = dims.LossSurface(model, (inputs, labels), "classification")
        torch.testing.assert_close(made.predict(made.initial[None], inputs)[0], plain.detach())
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ModelWarning)
            dims.LossSurface(model, (inputs, labels), "classification")


def test_a_model_that_computes_something_else_in_training_mode_is_refused() -> None:
    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * (2 if self.training else 1)

    with pytest.raises(ValueError, match=r"training mode.*model\.eval\(\)"):
        surface(Doubled(5, 3).double())


def test_weights_outside_of_the_parameters_are_noticed() -> None:
    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network(3)
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return self.inner(x) if self.calls < 3 else 2 * self.inner(x)

    with pytest.raises(ValueError, match=r"differ by up to .* from model\(x\)"):
        surface(Kept().eval())


class TestBatches:
    @pytest.mark.parametrize(
        "mix",
        [
            lambda f: f - f.mean(0),
            lambda f: functional.batch_norm(f, None, None, training=True),
            lambda f: f + f.roll(1, 0),
            lambda f: f.cumsum(0),
            lambda f: f / len(f),
            lambda f: f + torch.arange(len(f), dtype=f.dtype).unsqueeze(-1),
            lambda f: torch.softmax(f @ f.T, -1) @ f,
        ],
        ids=["mean", "batch norm", "neighbour", "sum so far", "size", "place", "attention"],
    )
    def test_outputs_that_depend_on_other_points_are_refused(self, mix):
        with pytest.raises(ValueError, match="other points of its batch"):
            surface(Calls(3, mix))

    def test_one_point_and_equal_points_pass(self):
        x, y = points()
        surface(network(3), (x[:1], y[:1]))
        surface(network(3), (x[:1].expand(6, -1), y[:6]))


def test_dropout_that_fires_rarely_is_refused() -> None:
    with pytest.raises(ValueError, match=r"draws random numbers.*training=self.training"):
        surface(Calls(3, lambda f: functional.dropout(f, 1e-6)))


class TestModules:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_coarse_numbers_are_refused(self, dtype):
        x, y = points()
        model = network(3).to(dtype)
        with pytest.raises(TypeError, match=r"copy\.deepcopy\(model\)\.float\(\)"):
            dims.fit(model, (x.to(dtype), y), "classification", tune=True)
        dims.LossSurface(copy.deepcopy(model).float(), (x.to(dtype), y), "classification")

    def test_a_coarse_frozen_part_may_stay(self):
        class Head(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.body = nn.Linear(5, 4).bfloat16().requires_grad_(False)
                self.head = nn.Linear(4, 3)

            def forward(self, x: Tensor) -> Tensor:
                return self.head(self.body(x.bfloat16()).float())

        x, y = points()
        assert surface(Head().eval(), (x.float(), y)).size == 15

    def test_script_modules_are_refused(self):
        x, _ = points()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            traced = torch.jit.trace(network(3), x)
        with pytest.raises(TypeError, match="Python module that was scripted or traced"):
            surface(traced)

    def test_the_meta_device_is_refused(self):
        with pytest.raises(ValueError, match="meta device and has no values"):
            surface(network(3).to("meta"))

    @pytest.mark.filterwarnings("ignore:There is a performance drop")
    def test_old_weight_norm_is_refused_and_the_new_one_works(self):
        layers = network(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            torch.nn.utils.weight_norm(layers[0])
        with pytest.raises(ValueError, match=r"layer '0' uses the old .*parametrizations"):
            surface(layers)
        torch.nn.utils.remove_weight_norm(layers[0])
        torch.nn.utils.parametrizations.weight_norm(layers[0])
        assert surface(layers).size == 4 + 20 + 4 + 15

    def test_a_tensor_with_a_graph_is_named(self):
        model = network(3)
        model[1].cache = model[0].weight * 2
        with pytest.raises(ValueError, match="layer '1' keeps 'cache'"):
            surface(model)

    def test_inference_tensors_work_and_inference_mode_is_refused(self):
        x, y = points()
        with torch.inference_mode():
            model, inside = network(3), x * 1
            with pytest.raises(RuntimeError, match=r"outside of it"):
                dims.fit(model, (inside, y), "classification", tune=True)
        posterior = dims.fit(model, (inside, y), "classification", prior_precision=1.0, tune=True)
        expected = dims.fit(network(3), (x, y), "classification", prior_precision=1.0, tune=True)
        assert torch.equal(posterior.gradient, expected.gradient)
        assert posterior.sample(2, max_time=0.1, progress=False).parameters.isfinite().all()
        with torch.inference_mode(), pytest.raises(RuntimeError, match="outside of it"):
            posterior.sample(2, progress=False)
