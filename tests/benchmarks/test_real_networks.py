"""The comparison on real networks, in small: its parts against oracles, and whole on noise."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dims
from dims_paper.cache import load_tensors
from dims_paper.datasets.images import Images
from dims_paper.training import lenet
from real_networks import __main__ as program
from real_networks import comparing, corruptions, images, lenet_scores, scores
from real_networks.budget import Budget, OutOfTime
from real_networks.experiment import Experiment
from real_networks.jpeg import decode_image, encode_image
from real_networks.motion import QUICK, move
from real_networks.networks import GroupNorm, network
from real_networks.predictions import average, of_many, small
from real_networks.rows_training import RowsTrainer
from real_networks.training import Recipe, Trainer, standardised
from real_networks.velocities import start_velocities

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.filterwarnings("ignore::dims.DimsWarning")


def noise(count: int, seed: int) -> images.Pictures:
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
    return images.Pictures(pixels, torch.arange(count) % 10)


def collection() -> images.Collection:
    other = {"svhn_test": noise(6, 3).pixels, "dtd10": noise(6, 4).pixels}
    return images.Collection(noise(32, 0), noise(12, 1), noise(16, 2), other)


@pytest.fixture
def on_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of the data files."""
    monkeypatch.setattr("real_networks.experiment.load", lambda *_: collection())
    monkeypatch.setattr("real_networks.images.load", lambda *_: collection())


def test_group_normalisation_is_that_of_torch() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 8, 5, 5)
    ours, theirs = GroupNorm(8, 2), nn.GroupNorm(2, 8)
    with torch.no_grad():
        for layer in (ours, theirs):
            layer.weight.copy_(torch.arange(8.0))
            layer.bias.copy_(torch.arange(8.0) - 4)
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize(("name", "count"), [("resnet20", 272_282), ("resnet18", 11_172_170)])
def test_networks_have_the_usual_size(name: str, count: int) -> None:
    # He et al.: 0.27 and 11.2 million; a group has a weight and a bias a channel.
    assert sum(p.numel() for p in network(name).parameters()) == count


def test_a_step_is_that_of_torchs_sgd() -> None:
    data = collection()
    trainer = Trainer("tiny", data, Recipe(1, 0.1, batch_size=8))
    start = trainer.fresh(0)
    trainer.theta.copy_(start)
    model = network("tiny")
    nn.utils.vector_to_parameters(start, model.parameters())
    flat = [p for p in model.parameters() if p.ndim == 1]  # norms and biases do not decay
    wide = [p for p in model.parameters() if p.ndim > 1]
    groups = [{"params": wide, "weight_decay": 5e-4}, {"params": flat}]
    sgd = torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)
    middle = torch.tensor([4, 4, 0])  # neither shifted nor flipped
    for step in range(3):
        rows = torch.arange(8 * step, 8 * step + 8)
        trainer.choice.copy_(torch.cat([rows[:, None], middle.expand(8, 3)], 1))
        trainer.now.copy_(torch.tensor([0.1, 5e-4, 0.0]))
        trainer._plain_step()
        batch = standardised(data.train.pixels[rows], data.centre, data.scale)
        sgd.zero_grad()
        nn.functional.cross_entropy(model(batch), data.train.labels[rows]).backward()
        sgd.step()
    expected = nn.utils.parameters_to_vector(model.parameters()).detach()
    torch.testing.assert_close(trainer.theta, expected, rtol=1e-4, atol=1e-5)


def test_images_are_shifted_and_flipped() -> None:
    data = collection()
    trainer = Trainer("tiny", data, Recipe(1, 0.1, batch_size=2))
    trainer.choice.copy_(torch.tensor([[5, 4, 4, 1], [6, 6, 4, 0]]))
    seen = trainer.augmented(trainer.choice)
    plain = standardised(data.train.pixels[5:7], data.centre, data.scale)
    torch.testing.assert_close(seen[0], plain[0].flip(-1))
    torch.testing.assert_close(seen[1, :, :-2], plain[1, :, 2:])


def test_training_learns() -> None:
    data = collection()
    trainer = Trainer("tiny", data, Recipe(30, 0.1, batch_size=16))
    theta, kept = trainer.run(trainer.fresh(0), 30, trainer.recipe.rate_at, 0, keep_at=(0.5, 1.0))
    assert len(kept) == 2
    assert torch.equal(kept[1], theta)
    logs = trainer.log_probabilities(theta, data.train.pixels)
    before = trainer.log_probabilities(trainer.fresh(0), data.train.pixels)
    labels = data.train.labels
    assert comparing.right_nll(logs, labels).mean() < comparing.right_nll(before, labels).mean()


def test_rows_are_trained_as_torchs_adam_trains_one() -> None:
    torch.manual_seed(1)
    inputs, labels = torch.randn(16, 1, 28, 28), torch.arange(16) % 10
    trainer = RowsTrainer(lenet, inputs, labels, 2, batch_size=16)
    rates, decays = torch.tensor([1e-2, 1e-3]), torch.tensor([0.0, 1e-2])
    thetas = trainer.run([5, 6], rates, decays, 3)
    for row, seed in enumerate((5, 6)):
        with dims.model.training.seeded(seed):
            model = lenet()
        adam = torch.optim.Adam(
            model.parameters(), lr=float(rates[row]), weight_decay=float(decays[row])
        )
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 3)
        for _ in range(3):  # one batch an epoch: its order does not matter
            adam.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            adam.step()
            cosine.step()
        expected = nn.utils.parameters_to_vector(model.parameters()).detach()
        torch.testing.assert_close(thetas[row], expected, rtol=1e-3, atol=2e-4)


def test_jpeg_files_survive_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = noise(3, 0).pixels.permute(0, 2, 3, 1).numpy()
    jpeg, offsets = images.encode(pictures)
    pixels = images.decode(jpeg, offsets).permute(0, 2, 3, 1).numpy()
    assert np.array_equal(pixels[1], decode_image(encode_image(pictures[1], images.QUALITY)))
    monkeypatch.setattr(images, "find", lambda name: tmp_path / "data" / name)
    for name in ("cifar10/cifar10_train", "cifar10/cifar10_test"):
        path = tmp_path / "data" / f"{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, jpeg=jpeg, offsets=offsets, labels=np.arange(3))
    for name in images.OOD_SETS:
        path = tmp_path / "data" / "ood_colour" / f"{name}.npz"
        path.parent.mkdir(exist_ok=True)
        np.savez(path, images=pictures)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program.main(["pack", "--folder", str(tmp_path / "packed")])
    here = images.coded_ood("dtd10"), images.decoded("cifar10/cifar10_test.npz").pixels
    monkeypatch.setenv("DIMS_DATA", str(tmp_path / "packed"))
    monkeypatch.setattr(images, "find", lambda name: pytest.fail(f"{name} was not packed"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    there = images.coded_ood("dtd10"), images.decoded("cifar10/cifar10_test.npz").pixels
    assert torch.equal(here[0], there[0])
    assert torch.equal(here[1], there[1])


@pytest.mark.parametrize("kind", corruptions.KINDS)
def test_corruptions_grow_with_strength_and_repeat(kind: str) -> None:
    smooth = torch.linspace(0, 4, 32).sin().add(1).mul(100)
    pixels = (smooth[:, None] + smooth).mul(0.6).to(torch.uint8).expand(2, 3, 32, 32).contiguous()
    pixels[:, 0, 7:13] = 255
    found = [corruptions.corrupt(pixels, kind, strength) for strength in (1, 3, 5)]
    changes = [float((each.float() - pixels.float()).square().mean()) for each in found]
    assert 0 < changes[0] < changes[1] < changes[2]
    assert torch.equal(found[1], corruptions.corrupt(pixels, kind, 3))


def test_an_unknown_corruption_is_refused() -> None:
    with pytest.raises(ValueError, match="corruption: one of noise"):
        corruptions.corrupt(noise(1, 0).pixels, "snow", 1)


def test_auroc_and_its_interval() -> None:
    generator = torch.Generator().manual_seed(0)
    inside, outside = torch.randn(300, generator=generator), torch.randn(200, generator=generator)
    shared_in, shared_out = inside + 0.1, outside + 1.0
    pairs = (shared_out[None] > shared_in[:, None]).double().mean()
    assert comparing.auroc(shared_in, shared_out) == pytest.approx(float(pairs))
    assert comparing.auroc(torch.zeros(3), torch.zeros(4)) == 0.5  # ties
    other = (inside + 0.3 * torch.randn(300, generator=generator), outside + 0.8)
    found = comparing.auroc_difference((shared_in, shared_out), other)
    gaps = []
    for _ in range(300):
        a = torch.randint(300, (300,), generator=generator)
        b = torch.randint(200, (200,), generator=generator)
        one = comparing.auroc(shared_in[a], shared_out[b])
        gaps.append(one - comparing.auroc(other[0][a], other[1][b]))
    spread = float(torch.tensor(gaps).std())
    assert (found.high - found.low) / (2 * comparing.NORMAL) == pytest.approx(spread, rel=0.2)


def test_the_mean_difference_of_images() -> None:
    ours, theirs = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.0, 2.0, 2.0])
    found = comparing.by_image(ours, theirs)
    assert found.value == pytest.approx(1.0)
    assert found.high - found.value == pytest.approx(1.959964 / 3**0.5)


def test_averages_are_of_probabilities() -> None:
    logs = torch.tensor([[[0.9, 0.1]], [[0.3, 0.7]]]).log()
    rounded = average(small(logs).double()).exp()
    torch.testing.assert_close(rounded, torch.tensor([[0.6, 0.4]]).double(), rtol=0, atol=1e-3)


def test_start_velocities_have_the_energy_that_was_asked_for() -> None:
    torch.manual_seed(0)
    data = (torch.randn(20, 3), torch.arange(20) % 2)
    surface = dims.LossSurface(nn.Linear(3, 2), data, "classification", 2.0)
    found = start_velocities(surface, surface.initial, 50, 2, 7.0, seed=1)
    assert float(0.5 * found.square().sum(-1).mean()) == pytest.approx(7.0, rel=1e-5)


def test_the_gain_of_many_draws_is_foretold_from_few() -> None:
    # Logits that differ by little noise: an average of D gains 1 - 1/D of half their variance.
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 3000, 2, generator=generator).double()
    noise = 0.3 * torch.randn(40, 3000, 2, generator=generator).double()
    logs, labels = (logits + noise).log_softmax(-1), torch.zeros(3000, dtype=torch.int64)
    whole = of_many(logs, labels, 40)
    assert whole == pytest.approx(float(comparing.right_nll(average(logs), labels).mean()))
    single = -float(logs[:, :, 0].mean())
    assert of_many(logs[:4], labels, 40) - whole == pytest.approx(0, abs=0.2 * (single - whole))


def test_a_temperature_that_was_divided_out_is_found() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(4000, 10, generator=generator).double()
    labels = torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(1)
    assert scores.temperature((2 * logits).log_softmax(-1), labels) == pytest.approx(2, abs=0.1)


@pytest.mark.usefixtures("on_noise")
def test_some_of_it_on_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, bundles = str(tmp_path / "runs"), str(tmp_path / "bundles")
    command = ["cifar", "--quick", "--folder", folder, "--steps", "train", "swag", "--starts", "0"]
    program.main(command)
    assert "failed: none" in capsys.readouterr().out
    program.main(command)
    assert "accuracy" not in capsys.readouterr().out  # nothing is computed again
    again = ["cifar", "--quick", "--folder", folder, "--steps", "dims", "--starts", "0"]
    program.main([*again, "--set", "averaged=True", "draws=1", "times=1e-9"])
    runs = Path(folder) / "tiny"
    (drawn,) = (load_tensors(path) for path in runs.glob("motion/dims_*_averaged_0_draws*"))
    mean = load_tensors(runs / "networks" / "averaged_0.safetensors")["theta"]
    torch.testing.assert_close(drawn["positions"][0, 0], mean)
    program.main(["bundle", "--folder", folder, "--to", bundles])
    program.main(["unbundle", "--folder", str(tmp_path / "elsewhere"), "--to", bundles])
    here, there = (
        sorted(p.name for p in (tmp_path / n).rglob("*.json")) for n in ("runs", "elsewhere")
    )
    assert here == there != []


@pytest.mark.slow
@pytest.mark.usefixtures("on_noise")
def test_all_of_it_on_noise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "RESAMPLES", 10)  # intervals are not looked at here
    folder, out = str(tmp_path / "runs"), str(tmp_path / "results")
    program.main(["cifar", "--quick", "--folder", folder, "--starts", "0", "1"])
    said = capsys.readouterr().out
    assert "failed: none" in said
    program.main(["cifar", "--quick", "--folder", folder, "--starts", "0", "1"])
    assert "accuracy" not in capsys.readouterr().out  # nothing is computed again
    bundles = str(tmp_path / "bundles")
    program.main(["bundle", "--folder", folder, "--to", bundles])
    folder = str(tmp_path / "elsewhere")
    program.main(["unbundle", "--folder", folder, "--to", bundles])
    program.main(["score", "--quick", "--folder", folder, "--out", out])
    found = json.loads((Path(out) / "tiny.json").read_text())
    kinds = {row["kind"] for row in found["methods"]}
    assert kinds >= {"network", "temperature", "ensemble", "dims", "swag", "last_layer"}
    assert kinds >= {"cyclical", "dropout", "averaged", "last_layer_averaged"}
    ensemble = next(row for row in found["methods"] if row["name"] == "ensemble of 2")
    assert 0 <= ensemble["accuracy"] <= 1
    assert len(ensemble["corrupted"]["ece"]) == 5
    opponents = {pair["theirs"] for pair in found["differences"]}
    assert opponents >= {"network", "swag", "last_layer", "ensemble of 2"}
    assert {"accuracy", "nll", "ece", "auroc dtd10"} <= set(found["differences"][0])
    assert len(found["probe"]["gradients"]) == 4
    assert found["probe"]["frames"]["first_frame"] > 0
    parts = ("methods", "differences", "corruptions", "precision")
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- begin: tiny {p} -->old<!-- end: tiny {p} -->\n" for p in parts))
    program.main(["page", "--out", out, "--page", str(page)])
    text = page.read_text()
    assert "old" not in text
    assert f"| ensemble of 2 | all | 2 | {ensemble['seconds']:.0f} |" in text
    for figure in ("real_networks_tiny.svg", "real_networks_tiny_corruptions.svg"):
        assert (tmp_path / "images" / figure).exists()


@pytest.mark.slow
@pytest.mark.usefixtures("on_noise")
def test_a_motion_that_runs_out_of_time_goes_on(tmp_path: Path) -> None:
    whole = Experiment("tiny", tmp_path / "whole", "cpu", Budget(), quick=True)
    move(whole, 0, QUICK)
    pieces = Experiment("tiny", tmp_path / "pieces", "cpu", Budget(), quick=True)
    pieces.member(0)
    pieces.budget = Budget(0.0)
    with pytest.raises(OutOfTime):
        move(pieces, 0, QUICK)
    stopped = list((pieces.folder / "predictions").glob("dims*_stopped*.json"))
    assert len(stopped) == 1
    facts = json.loads(stopped[0].read_text())
    assert all(0 <= violation < 0.01 for violation in facts["energy_violation"])
    assert all(count >= 1 for count in facts["evaluations"])
    pieces.budget = Budget()
    move(pieces, 0, QUICK)
    ends = [
        load_tensors(
            each.folder / "motion" / "dims_prior0.5_friction0.1_n1000_E20_0_draws.safetensors"
        )
        for each in (whole, pieces)
    ]
    assert torch.equal(ends[0]["positions"], ends[1]["positions"])


@pytest.mark.slow
def test_a_killed_program_goes_on(tmp_path: Path) -> None:
    """SIGKILL in the middle of the motion, then the same command."""
    code = f"""
        import os, signal, sys
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(BENCHMARKS)!r}]
        import test_real_networks as here
        from real_networks import __main__ as program, experiment, motion
        experiment.load = lambda *_: here.collection()
        class Deadly(motion.Keeper):
            def offer(self, pack):
                self.every = 0.0
                super().offer(pack)
                if len(self.history) == 2 and len(sys.argv) > 1:
                    os.kill(os.getpid(), signal.SIGKILL)
        motion.Keeper = Deadly
        program.main("cifar --quick --steps dims --starts 0 --folder {tmp_path}".split())
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    first = subprocess.run([*command, "die"], capture_output=True, text=True)
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert not list(tmp_path.glob("tiny/predictions/*.json"))
    second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert "going on at t" in second.stdout
    assert len(list(tmp_path.glob("tiny/predictions/*.json"))) == 2


def _letters(name: str, split: str = "test") -> Images:
    generator = torch.Generator().manual_seed(sum(map(ord, name + split)))
    count = 48 if split == "train" else 16
    pixels = torch.rand(count, 1, 28, 28, generator=generator)
    return Images(pixels, torch.arange(count) % 10)


def test_lenets_on_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("real_networks.lenet.load_images", _letters)
    monkeypatch.setattr(lenet_scores, "load_images", _letters)
    folder, out = str(tmp_path / "runs"), str(tmp_path / "results")
    arguments = ["lenet", "--quick", "--folder", folder]
    program.main([*arguments, "--steps", "ensemble"])
    program.main([*arguments, "--seconds", "0"])  # stops at once, and says where
    program.main(arguments)
    program.main(["score", "--quick", "--folder", folder, "--out", out])
    found = json.loads((Path(out) / "fashion_mnist.json").read_text())
    names = {row["name"] for row in found["rows"]}
    assert {"ensemble_0", "dims_0_t0.005"} <= names
    chosen = found["search"]["motion"]
    assert chosen["best"]["nll"] == min(row["nll"] for row in chosen["tried"])
    assert {pair["theirs"] for pair in found["differences"]} == {"ensemble_0"}
    assert [row["factor"] for row in found["budgets"]] == [1, 3, 5]
    spread: Tensor = load_tensors(
        Path(folder) / "fashion_mnist" / "motion" / "dims_0_draws.safetensors"
    )["positions"]
    assert spread.shape[1] == 2
    page = tmp_path / "page.md"
    page.write_text("<!-- begin: fashion_mnist budgets --><!-- end: fashion_mnist budgets -->")
    program.main(["page", "--out", out, "--page", str(page)])
    assert page.read_text().count("×") == 3
