"""LeNet on images: training side by side, scores, resampled comparisons, and the three parts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from dims.errors import NotAMinimumWarning
from dims.mechanics.dynamics import dissipative
from dims.model.training import Training
from dims.prediction.metrics import expected_calibration_error, ood_auroc
from dims.prediction.predictive import ClassificationPredictive
from dims.sampling.fit import fit
from dims.surface.loss import LossSurface
from dims_paper.datasets.images import Images
from dims_paper.experiments.images import parts
from dims_paper.experiments.images.motion import Segment, follow, initial_state
from dims_paper.experiments.images.run import ImageRun, slug
from dims_paper.experiments.images.scores import (
    PerImage,
    compare_pairs,
    compare_rows,
    distributions,
    load_gallery,
    load_per_image,
    per_image_of,
    save_per_image,
    weighted_auroc,
)
from dims_paper.experiments.images.settings import (
    GROWING,
    FullSettings,
    ImageSettings,
    PeerSettings,
    SubsetSettings,
)
from dims_paper.schema import Row, Run
from dims_paper.training import lenet, train_together


def few_images(count: int = 40) -> Images:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.rand(count, 1, 6, 6, dtype=torch.float64, generator=generator)
    return Images(inputs, torch.randint(0, 3, (count,), generator=generator))


def small_network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 3)).double()


def test_lenet_has_the_size_of_the_paper() -> None:
    assert sum(p.numel() for p in lenet().parameters()) == 44_426
    assert lenet()(torch.rand(2, 1, 28, 28)).shape == (2, 10)


def test_the_wide_network_has_a_million_parameters() -> None:
    settings = ImageSettings("fashion_mnist", wide=True)
    assert sum(p.numel() for p in settings.network().parameters()) >= 1_000_000
    assert settings.name == "fashion_mnist_wide_0"


def test_a_run_may_stop_at_the_end_of_a_segment() -> None:
    short = GROWING.until(20.0)
    assert short.segments == GROWING.segments[:3]
    assert short.images == GROWING.images[:3]


def test_runs_of_a_study_have_files_and_rows_of_their_own() -> None:
    heavy = FullSettings().study(gravity=10.0)
    assert heavy.gravity == 10
    assert heavy.early is None
    assert FullSettings().study() == FullSettings()
    assert (FullSettings().kind, FullSettings().label) == ("full", "DiMS full")
    assert (heavy.kind, heavy.label) == ("full_gravity_10", "DiMS full, κ = 10")
    assert slug(heavy.label) == "dims-full-gravity-10"
    few = GROWING.study(effective_points=300.0, friction=0.3)
    assert few.kind == "growing_effective_points_300_friction_0.3"
    assert few.label == "DiMS growing, N = 300, η₀ = 0.3"
    assert slug(few.label) == "dims-growing-effective-points-300-friction-0.3"
    assert slug("DiMS full (4)") == "dims-full-4"


def test_the_learning_rate_falls_along_a_cosine() -> None:
    images = few_images()
    training = Training(epochs=3, batch_size=16, weight_decay=1e-2, cosine=True)
    networks = []
    for seed in (5, 6):
        torch.manual_seed(seed)
        networks.append(small_network())
    found = train_together(
        networks, images.inputs, images.targets, nn.functional.cross_entropy, training, (5, 6)
    )
    for seed, model in zip((5, 6), found, strict=True):
        expected = _trained_with_a_scheduler(images, training, seed)
        for ours, theirs in zip(model.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def _trained_with_a_scheduler(images: Images, training: Training, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = small_network()
    optimiser = torch.optim.Adam(
        model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    generator = torch.Generator().manual_seed(seed)
    steps = -(-len(images.inputs) // 16) * training.epochs
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(training.epochs):
        for rows in torch.randperm(len(images.inputs), generator=generator).split(16):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(images.inputs[rows]), images.targets[rows]).backward()
            optimiser.step()
            scheduler.step()
    return model


def test_a_weighted_auroc_is_that_of_repeated_images() -> None:
    generator = torch.Generator().manual_seed(0)
    known = torch.randint(0, 8, (30,), generator=generator).double()  # with ties
    outside = torch.randint(2, 10, (20,), generator=generator).double()
    inside_weights = torch.randint(0, 4, (5, 30), generator=generator)
    outside_weights = torch.randint(0, 4, (5, 20), generator=generator)
    found = weighted_auroc(known, outside, inside_weights.double(), outside_weights.double())
    expected = [
        ood_auroc(known.repeat_interleave(w), outside.repeat_interleave(u))
        for w, u in zip(inside_weights, outside_weights, strict=True)
    ]
    torch.testing.assert_close(found, torch.stack(expected))


def per_image(log_p: Tensor, targets: Tensor, other: Tensor) -> PerImage:
    outside = {"other": ClassificationPredictive(other)}
    return per_image_of(ClassificationPredictive(log_p), outside, targets)


def test_a_comparison_has_the_plain_difference_and_an_interval_around_it() -> None:
    generator = torch.Generator().manual_seed(1)
    targets = torch.randint(0, 3, (400,), generator=generator)
    good = torch.randn(4, 400, 3, generator=generator, dtype=torch.float64)
    good = torch.log_softmax(good + 2 * nn.functional.one_hot(targets, 3), -1)
    bad = torch.log_softmax(torch.randn(4, 400, 3, generator=generator, dtype=torch.float64), -1)
    outside = torch.log_softmax(
        0.1 * torch.randn(4, 300, 3, generator=generator, dtype=torch.float64), -1
    )
    ours, other = per_image(good, targets, outside), per_image(bad, targets, outside)
    found = compare_pairs(ours, other)
    means = good.exp().mean(0).log(), bad.exp().mean(0).log()
    nll = [-m.gather(-1, targets.unsqueeze(-1)).mean() for m in means]
    assert found["ensemble_nll"]["difference"] == pytest.approx(float(nll[0] - nll[1]))
    ece = [expected_calibration_error(m, targets) for m in means]
    assert found["ensemble_ece"]["difference"] == pytest.approx(float(ece[0] - ece[1]))
    assert found["auroc_other"]["difference"] > 0
    for entry in found.values():
        assert entry["low"] < entry["difference"] < entry["high"]
    # The interval of a mean of independent differences is known: ±1.96 standard errors.
    pairs = ours.per_sample_accuracy - other.per_sample_accuracy
    width = found["per_sample_accuracy"]["high"] - found["per_sample_accuracy"]["low"]
    assert width == pytest.approx(2 * 1.96 * float(pairs.std()) / 20, rel=0.15)


def test_a_method_is_equal_to_itself() -> None:
    targets = torch.tensor([0, 1, 2] * 20)
    log_p = torch.log_softmax(torch.randn(2, 60, 3, dtype=torch.float64), -1)
    same = per_image(log_p, targets, log_p[:, :50])
    for entry in compare_pairs(same, same).values():
        assert entry == {"difference": 0.0, "low": 0.0, "high": 0.0}


def test_numbers_per_image_survive_a_file(tmp_path: Path) -> None:
    targets = torch.tensor([0, 1, 2] * 5)
    log_p = torch.log_softmax(torch.randn(2, 15, 3), -1)
    scores = per_image(log_p, targets, log_p[:, :9])
    save_per_image(scores, tmp_path / "a.safetensors")
    again = load_per_image(tmp_path / "a.safetensors")
    torch.testing.assert_close(again.confidence, scores.confidence, rtol=1e-6, atol=0)
    assert torch.equal(again.ood_doubt["other"].float(), scores.ood_doubt["other"].float())


def test_distributions_are_those_of_the_averaged_predictive() -> None:
    generator = torch.Generator().manual_seed(2)
    targets = torch.randint(0, 3, (200,), generator=generator)
    logits = 3 * torch.randn(4, 300, 3, generator=generator, dtype=torch.float64)
    log_p = torch.log_softmax(logits, -1)
    found = distributions(per_image(log_p[:, :200], targets, log_p[:, 200:]))
    confidence = log_p.exp().mean(0).amax(-1)
    for shares, values in (
        (found["confidence"]["in_distribution"], confidence[:200]),
        (found["confidence"]["ood"]["other"], confidence[200:]),
    ):
        assert shares == pytest.approx((values.histc(20, 0, 1) / len(values)).tolist())
    # The diagram holds the calibration error: Σ_b (N_b/N) |acc_b − conf_b|.
    bins = found["calibration"]
    filled = [i for i, n in enumerate(bins["inputs"]) if n]
    gaps = [bins["inputs"][i] * abs(bins["accuracy"][i] - bins["confidence"][i]) for i in filled]
    ece = expected_calibration_error(log_p[:, :200].exp().mean(0).log(), targets)
    assert sum(gaps) / 200 == pytest.approx(float(ece), abs=1e-3)
    assert bins["confidence"][0] is None  # no predictive of three classes is below 1/3


SMALL = replace(
    ImageSettings(),
    training=Training(epochs=2, batch_size=64),
    train_images=100,
    test_images=60,
)


def test_the_papers_part_has_all_methods_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    subset = SubsetSettings(
        points=20, rank=3, draws=2, friction=2.0, times=(0.002, 0.004), rla_time=0.001
    )
    run = parts.run_part(SMALL, subset, tmp_path).to_json()
    names = [(row["method"], row["t1"]) for row in run["rows"]]
    assert names == [
        ("MAP", None),
        ("LA", None),
        ("LinLA", None),
        ("RLA", 0.001),
        ("DiMS", 0.002),
        ("DiMS", 0.004),
    ]
    for row in run["rows"]:
        assert 0 <= row["test"]["per_sample"]["accuracy"] <= 1
        assert set(row["ood"]) == {"emnist_mnist", "emnist_letters", "fashion_mnist", "kmnist"}
        assert set(row["confidence"]["ood"]) == set(row["ood"])
        assert sum(row["confidence"]["in_distribution"]) == pytest.approx(1, abs=1e-3)
    assert max(run["rows"][-1]["energy_violation"]) < 1e-2
    older = json.loads((tmp_path / "mnist_0_low_rank.json").read_text())
    for row in older["rows"]:
        del row["confidence"], row["calibration"]
    (tmp_path / "mnist_0_low_rank.json").write_text(json.dumps(older))
    mended = parts.run_part(SMALL, subset, tmp_path).to_json()
    for row, before in zip(mended["rows"], run["rows"], strict=True):
        assert row["confidence"] == before["confidence"]
        assert row["calibration"]["inputs"] == before["calibration"]["inputs"]
    assert json.loads((tmp_path / "mnist_0_low_rank.json").read_text()) == mended
    (tmp_path / "mnist_0_low_rank.json").unlink()
    kept = sorted((tmp_path / "draws").iterdir())
    before = [path.stat().st_mtime_ns for path in kept]
    again = parts.run_part(SMALL, subset, tmp_path).to_json()
    assert [path.stat().st_mtime_ns for path in kept] == before
    assert again["rows"][-1]["test"] == run["rows"][-1]["test"]


def test_start_velocities_come_from_their_file_and_must_be_enough(tmp_path: Path) -> None:
    model, images = small_network(), few_images()
    path = tmp_path / "initial.safetensors"
    data = (images.inputs, images.targets)
    first = initial_state(path, model, data, 3, 0, curvature="diagonal", effective_points=10.0)
    with pytest.warns(NotAMinimumWarning):
        posterior = fit(
            model, data, "classification", curvature="diagonal", effective_points=10.0, tune=True
        )
    torch.testing.assert_close(first.velocities, posterior.perturbations(3, 0))
    assert first.facts["prior_precision"] == pytest.approx(posterior.prior_precision)
    fewer = initial_state(path, model, data, 2, 0, effective_points=10.0, curvature="unknown")
    assert torch.equal(fewer.velocities, first.velocities[:2])
    assert fewer.surface.effective_points == 10
    drawn = posterior.sample(2, "la", seed=0, progress=False)
    torch.testing.assert_close(drawn.parameters, first.position + first.velocities[:2])
    with pytest.raises(ValueError, match="holds 3 start velocities, and 4 draws"):
        initial_state(path, model, data, 4, 0)


BRIEF = FullSettings(
    effective_points=20.0, rank=3, draws=2, friction=2.0, segments=((0.002,), (0.004,))
)


@pytest.mark.slow
def test_all_images_count_as_few_points(tmp_path: Path) -> None:
    full = replace(
        BRIEF,
        sizes=(1, 2, 4),
        early=0.002,
    )
    run = parts.run_part(SMALL, full, tmp_path).to_json()
    assert run["points"] == SMALL.train_images
    assert [row["method"] for row in run["rows"]] == [
        "MAP",
        "DiMS full",
        "DiMS full",
        "DiMS full (1)",
        "DiMS full, half at 0.002",
    ]
    assert [row.get("draws") for row in run["rows"]] == [None, 2, 2, 1, 2]
    early, late, mixed = (run["rows"][i]["test"]["per_sample"] for i in (1, 2, 4))
    assert len({row["nll"] for row in (early, late, mixed)}) == 3
    first = load_file(tmp_path / "draws/mnist_0_full_dims-full_0.002.safetensors")["positions"][0]
    second = load_file(tmp_path / "draws/mnist_0_full_dims-full_0.004.safetensors")["positions"][0]
    images = ImageRun(SMALL, tmp_path, "x", None)
    surface = LossSurface(images.trained, images.some(20), "classification", 1.0)
    known = images.gallery.test
    outputs = surface.predict(torch.stack([first[0], second[1]]), known.inputs)
    terms = nn.functional.cross_entropy(outputs.flatten(0, 1), known.targets.repeat(2))
    assert mixed["nll"] == pytest.approx(terms.item(), rel=1e-4)
    assert json.loads((tmp_path / "mnist_0_full.json").read_text())["rows"]


def test_a_growing_part_of_the_images_says_how_the_energy_jumps(tmp_path: Path) -> None:
    full = replace(
        BRIEF,
        sizes=(),
        images=(60, None),
    )
    run = parts.run_part(SMALL, full, tmp_path).to_json()
    first, last = run["rows"][1:]
    assert (first["images"], last["images"]) == (60, SMALL.train_images)
    assert first["energy_jump"] == [0.0, 0.0]
    kept = load_file(tmp_path / "draws/mnist_0_growing_dims-growing_0.002.safetensors")
    images = ImageRun(SMALL, tmp_path, "x", None)
    few = torch.randperm(SMALL.train_images, generator=torch.Generator().manual_seed(0))[:60]

    @torch.no_grad()
    def loss(theta: Tensor, rows: Tensor | slice) -> float:
        model = lenet()
        nn.utils.vector_to_parameters(theta, model.parameters())
        outputs = model(images.images.inputs[rows])
        terms = nn.functional.cross_entropy(outputs, images.images.targets[rows])
        return float(20 * terms)

    ends = kept["positions"][-1]
    expected = [loss(theta, slice(None)) - loss(theta, few) for theta in ends]
    assert last["energy_jump"] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_draws_go_by_the_solver_that_is_asked_for(tmp_path: Path) -> None:
    images = few_images()
    surface = LossSurface(small_network(), (images.inputs, images.targets), "classification", 1.0)
    velocity = torch.ones(2, surface.size, dtype=torch.float64)

    def followed(solver: str) -> dict[str, Tensor]:
        file = tmp_path / f"{solver}.safetensors"
        segments = [Segment((0.1, 0.2), surface)]
        force = dissipative(1.0, 0.5)
        found = follow(segments, surface.initial, velocity, force, lambda _: file, solver=solver)
        return dict(next(found)[1])

    ours, reference = followed("rattle"), followed("dopri5")
    torch.testing.assert_close(ours["positions"], reference["positions"], atol=1e-3, rtol=1e-3)
    assert (reference["evaluations"] % 6 == 1).all()  # six stages a step, and one to begin with


@pytest.mark.slow
def test_ood_images_are_separated_from_test_and_from_training_images(tmp_path: Path) -> None:
    subset = SubsetSettings(
        points=20, rank=3, draws=2, friction=2.0, times=(0.002, 0.004), rla_time=0.001
    )
    found = parts.run_ood(SMALL, subset, tmp_path).to_json()
    names = [(row["method"], row["t1"]) for row in found["rows"]]
    assert names == [("MAP", None), ("RLA", 0.001), ("DiMS", 0.002), ("DiMS", 0.004)]
    run = ImageRun(SMALL, tmp_path, "again", None)
    kept = load_file(tmp_path / "draws" / "mnist_0_ood_dims-rattle_0.004.safetensors")
    surface = LossSurface(run.trained, run.some(20), "classification", 1.0)
    garments = run.gallery.ood["fashion_mnist"].inputs
    for known, images in (("test", run.gallery.test.inputs), ("training", run.some(20)[0])):
        for row, thetas in (
            (found["rows"][0], surface.initial.unsqueeze(0)),
            (found["rows"][2], kept["positions"][0]),
            (found["rows"][3], kept["positions"][1]),
        ):
            inside, outside = (
                -torch.log_softmax(surface.predict(thetas, x), dim=-1).amax(-1)
                for x in (images, garments)
            )
            more_doubted = (outside[:, :, None] > inside[:, None]).double().mean()
            auroc = row[known]["per_sample"]["auroc_fashion_mnist"]
            assert auroc == pytest.approx(more_doubted.item(), abs=1e-3)
    reference = parts.run_ood(SMALL, subset, tmp_path, solver="dopri5").to_json()
    assert [row["method"] for row in reference["rows"]] == ["MAP", "DiMS", "DiMS"]
    for theirs, ours in zip(reference["rows"][1:], found["rows"][2:], strict=True):
        assert theirs["evaluations"] != ours["evaluations"]
        assert theirs["loss"] == pytest.approx(ours["loss"], rel=1e-3)


def test_peers_are_other_networks_than_the_one_sampled_from(tmp_path: Path) -> None:
    peers = PeerSettings(
        sizes=(2, 3), training=Training(epochs=1, batch_size=64), swag_epochs=2, draws=2
    )
    run = parts.run_part(SMALL, peers, tmp_path).to_json()
    rows = {row["method"]: row for row in run["rows"]}
    assert list(rows) == [
        "MAP",
        "MAP longer",
        "Ensemble (2)",
        "Ensemble (3)",
        "SWAG",
        "Last-layer LA",
    ]
    assert rows["MAP"]["test"] != rows["MAP longer"]["test"]
    assert rows["Ensemble (3)"]["draws"] == 3


def test_a_gallery_has_the_test_set_and_the_ood_sets() -> None:
    gallery = load_gallery("fashion_mnist", "cpu", 10)
    assert len(gallery.test.targets) == 10
    assert set(gallery.ood) == {"emnist_mnist", "emnist_letters", "kmnist", "mnist"}


def test_rows_are_compared_with_map_and_with_ensembles_of_their_size(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(5)
    targets = torch.randint(0, 3, (50,), generator=generator)

    def row(method: str, t1: float | None, name: str, draws: int = 1) -> Row:
        logits = torch.randn(2, 90, 3, generator=generator, dtype=torch.float64)
        log_p = torch.log_softmax(logits, -1)
        scores = per_image(log_p[:, :50], targets, log_p[:, 50:])
        save_per_image(scores, tmp_path / f"{name}.safetensors")
        return Row(method=method, t1=t1, per_image=name, draws=draws)

    ours = [
        row("MAP", None, "a"),
        row("DiMS full", 1.0, "b", 9),
        row("DiMS full", 2.0, "c", 9),
        row("DiMS full (4)", 2.0, "d", 4),
    ]
    peers = [row("MAP", None, "a"), row("Ensemble (4)", None, "e"), row("Ensemble (9)", None, "f")]
    runs = [Run(experiment="mnist", rows=rows) for rows in (ours, peers)]
    found = compare_rows(runs, tmp_path)
    pairs = [(entry.method, entry.t1, entry.against) for entry in found]
    assert pairs == [
        ("DiMS full", 2.0, "MAP"),
        ("DiMS full (4)", 2.0, "MAP"),
        ("Ensemble (4)", None, "MAP"),
        ("Ensemble (9)", None, "MAP"),
        ("DiMS full", 2.0, "Ensemble (9)"),
        ("DiMS full (4)", 2.0, "Ensemble (4)"),
    ]
    expected = compare_pairs(
        *(load_per_image(tmp_path / f"{name}.safetensors") for name in ("d", "e"))
    )
    assert found[-1].intervals["ensemble_nll"] == expected["ensemble_nll"]
