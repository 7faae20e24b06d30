from __future__ import annotations

import pytest

from dims_paper.numbers import lookup, paper_numbers, select


def test_all_872_numbers_are_there_and_unambiguous() -> None:
    cells = paper_numbers()
    assert len(cells) == 872
    keys = {
        (c.table, c.dataset, c.split, c.evaluated_on, c.method, c.t1, c.eta0, c.metric)
        for c in cells
    }
    assert len(keys) == 872
    assert sum(cell.error is None for cell in cells) == 59
    assert all((cell.error is None) == (cell.error_kind is None) for cell in cells)


@pytest.mark.parametrize(
    ("method", "mean", "error"),
    [("LA", 17.852, 0.175), ("RLA", 0.776, 0.051), ("DiMS", 0.422, 0.015)],
)
def test_vehicle_row_of_the_main_table(method: str, mean: float, error: float) -> None:
    cell = lookup(table="tab:uci_nll_test", dataset="vehicle", method=method, metric="nll")
    assert (cell.mean, cell.error) == (mean, error)
    assert cell.error_kind == "se over 5 seeds"


def test_out_of_distribution_cells_name_the_other_set() -> None:
    cells = select(table="tab:ood-main", dataset="mnist", method="DiMS")
    assert {cell.evaluated_on for cell in cells} == {"emnist", "fashion_mnist", "kmnist"}
    cell = lookup(table="tab:ood-main", dataset="mnist", method="DiMS", evaluated_on="kmnist")
    assert cell.mean == 0.979


def test_times_and_frictions_tell_runs_apart() -> None:
    cells = select(table="tab:id-seed0", dataset="mnist", method="DiMS", metric="nll")
    assert {cell.t1 for cell in cells} == {25.0, 50.0}
    assert (
        lookup(
            table="tab:id-seed0", dataset="mnist", method="DiMS", metric="nll", t1=25.0, eta0=0.1
        )
        in cells
    )


def test_no_match_and_several_matches_are_errors() -> None:
    with pytest.raises(LookupError, match="no number of the paper"):
        lookup(dataset="cifar")
    with pytest.raises(LookupError, match="24 numbers of the paper agree"):
        lookup(table="tab:uci_nll_test")
    assert select(dataset="cifar") == ()
    assert len(select()) == 872
