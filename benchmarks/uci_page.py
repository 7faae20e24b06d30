"""Write the tables of docs/uci_benchmark.md and the README from the files of finished splits.

python uci_page.py          # in benchmarks/, after `python -m uci_regression` and the other one
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from dims_paper.datasets.uci_regression import load_published
from tables import filled, markdown
from uci_classification.__main__ import CHOSEN_ON as CLASSIFICATION_CHOSEN_ON
from uci_classification.__main__ import OUT as CLASSIFICATION
from uci_classification.differences import FIVE, ONE
from uci_classification.differences import read_results as read_classification
from uci_classification.differences import table as differences
from uci_classification.dropout import dropout_table
from uci_regression.__main__ import CHOSEN_ON, OUT
from uci_regression.counts import counts
from uci_regression.published_table import read_results, summary, table

ROOT = Path(__file__).parents[1]
PAGE, README = ROOT / "docs" / "uci_benchmark.md", ROOT / "README.md"
PUBLISHED = "MC dropout"
SHOWN = {
    "the network": "network",
    "deep ensemble of 5, tuned": "ensemble",
    "dims, from one network": "default",
}


def contents() -> dict[str, str]:
    """What belongs at each place of the page."""
    results = read_results(OUT)
    found = {"regression": summary(results), "regression RMSE": table(results, "rmse")}
    for answer in ("default", "held out"):
        found[f"regression NLL, {answer}"] = table(results, "nll", answer)
        found[f"regression counts, {answer}"] = _list(counts(results, answer, CHOSEN_ON))
    for starts, protocols in (("", ONE), (", five networks", FIVE)):
        whole = differences(CLASSIFICATION, CLASSIFICATION_CHOSEN_ON, protocols)
        rows, lines, more_rows, more_lines = whole.split("\n\n")
        found[f"classification, default{starts}"] = f"{rows}\n\n{_list(lines)}"
        found[f"classification, held out{starts}"] = f"{more_rows}\n\n{_list(more_lines)}"
    found["classification, MC dropout"] = dropout_table(read_classification(CLASSIFICATION))
    return found


def readme() -> str:
    """The mean NLL of the network, its opponents and the default answer on each set."""
    results = {name: splits for name, splits in read_results(OUT).items() if len(splits) > 1}
    head = ["", *(name.removesuffix("_red") for name in results)]
    means = {
        label: [fmean(s["scores"][answer]["nll"] for s in splits) for splits in results.values()]
        for label, answer in SHOWN.items()
    }
    theirs = {entry.dataset: entry.nll for entry in load_published() if entry.method == PUBLISHED}
    means = {f"{PUBLISHED}, published": [theirs[name] for name in results]} | means
    best = [min(column) for column in zip(*means.values(), strict=True)]
    rows = [
        [label, *(_bold(m, m == b) for m, b in zip(row, best, strict=True))]
        for label, row in means.items()
    ]
    return markdown(head, rows)


def _bold(value: float, is_best: bool) -> str:
    return f"**{value:.2f}**" if is_best else f"{value:.2f}"


def _list(lines: str) -> str:
    return "\n".join(f"- {line}" for line in lines.splitlines())


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for place, content in contents().items():
        text = filled(text, place, content)
    PAGE.write_text(text, encoding="utf-8")
    README.write_text(filled(README.read_text("utf-8"), "README", readme()), encoding="utf-8")


if __name__ == "__main__":
    main()
