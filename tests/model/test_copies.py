"""Rows that stand in the data more than once, and splits that keep them together."""

import pytest
import torch

from dims.baselines.held_out import split
from dims.estimators.care import split_rows
from dims.model.copies import copy_groups, equal_rows, group_sizes, parts_of
from dims.model.training_data import TrainingData


def rows(count=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    return x, x[:, :1] + torch.randn(count, 1, generator=generator, dtype=torch.float64)


def with_copies(of, more):
    """The rows, and some of them again below."""
    return tuple(torch.cat([part, part[more]]) for part in of)


def test_copies_share_the_number_of_the_first():
    x, y = with_copies(rows(), [3, 3, 7])
    groups = equal_rows(x, y)
    assert groups is not None
    assert groups.tolist() == [*range(60), 3, 3, 7]
    sizes = group_sizes(groups, 63)
    assert sizes.sum() == 60 - 2 + 3 * 3 + 2 * 2
    assert sizes[[3, 7, 8, 60, 62]].tolist() == [3, 2, 1, 3, 2]


def test_there_are_no_copies_among_different_rows():
    x, y = rows()
    assert equal_rows(x, y) is None
    assert group_sizes(None, 60).tolist() == [1] * 60


def test_inputs_of_several_parts_are_equal_where_all_parts_are():
    x, y = with_copies(rows(), [3, 7])
    words = torch.arange(62)
    words[-1] = 7
    groups = equal_rows({"x": x, "words": words}, y)
    assert groups is not None
    assert groups.tolist() == [*range(61), 7]


def test_inputs_that_are_measured_again_are_no_copies():
    """A yes and a no: equal rows are no surprise, and the targets of equal inputs differ."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(2, (200, 5), generator=generator)
    y = (x[:, 0] + torch.rand(200, generator=generator) > 0.9).long()
    assert equal_rows(x, y) is None


def test_a_row_that_is_a_large_part_of_the_data_has_no_copies():
    """XOR fifty times: who leaves out all rows of one kind learns nothing about them."""
    x = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]).repeat(50, 1)
    assert equal_rows(x, x.sum(1) % 2) is None
    many = with_copies(rows(), [5] * 10 + [6])
    groups = equal_rows(*many)
    assert groups is not None
    assert group_sizes(groups, 71).unique().tolist() == [1, 2]


@pytest.mark.parametrize("seed", range(3))
def test_parts_keep_copies_together(seed):
    order = torch.randperm(90, generator=torch.Generator().manual_seed(seed))
    groups = copy_groups([i % 45 for i in range(90)], [0] * 90)
    parts = parts_of(order, [9, 20], groups)
    assert sorted(torch.cat(parts).tolist()) == list(range(90))
    assert [len(part) for part in parts] == [10, 20, 60]
    kinds = [{row % 45 for row in part.tolist()} for part in parts]
    assert sum(map(len, kinds)) == 45
    alone = parts_of(order, [9, 20], None)
    assert [part.tolist() for part in alone] == [
        order[:9].tolist(),
        order[9:29].tolist(),
        order[29:].tolist(),
    ]


def test_no_held_out_row_has_a_copy_that_is_learned_from():
    x, y = with_copies(rows(100), list(range(50)))
    known, unseen = split(TrainingData(x, y), 30, seed=0)
    assert len(unseen.targets) in (30, 31)
    assert len(known.targets) + len(unseen.targets) == 150
    assert not {tuple(row) for row in known.inputs.tolist()} & {
        tuple(row) for row in unseen.inputs.tolist()
    }

    three = split_rows(150, 0.2, 0, equal_rows(x, y))
    kinds = [{tuple(row) for row in x[part].tolist()} for part in three]
    assert sum(map(len, kinds)) == 100
