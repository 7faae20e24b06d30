"""Rows that repeat another row are named, and stay on one side of the evaluation."""

import numpy as np

from dims.estimators import tables

KINDS = {"size": "number", "side": "category"}


def read(folder, rows, task="regression"):
    path = folder / "t.csv"
    path.write_text("\n".join(["id,size,side,price", *rows]))
    return tables.read(path, KINDS, "price", task)


def lines_of(count, random):
    return [f"{random.rand():.4f},{'NS'[i % 2]},{random.rand():.3f}" for i in range(count)]


def test_repeated_rows_are_named_and_stay_together(tmp_path):
    random = np.random.RandomState(0)
    some = lines_of(40, random)
    some[3] = ",N,0.5"  # a missing cell
    table = read(tmp_path, [f"{i},{row}" for i, row in enumerate([*some, *some[:20]])])
    (note,) = table.notes
    assert note.startswith("20 rows repeat an earlier one")
    assert "lines 42, 43, 44, 45, 46 and 15 more" in note
    for seed in range(5):
        known, held_out = table.split(0.2, seed)
        assert len(held_out) in (12, 13)
        both = [
            {
                (str(a), b, c)
                for a, b, c in zip(t.inputs["size"], t.inputs["side"], t.target, strict=True)
            }
            for t in (known, held_out)
        ]
        assert not both[0] & both[1]


def test_a_table_without_copies_has_no_note_and_the_usual_split(tmp_path):
    random = np.random.RandomState(0)
    table = read(tmp_path, [f"{i},{row}" for i, row in enumerate(lines_of(40, random))])
    assert not table.notes
    order = np.random.RandomState(3).permutation(40)
    assert table.split(0.2, 3)[1].lines.tolist() == sorted(2 + order[:8])


def test_answers_that_come_again_by_nature_are_no_copies(tmp_path):
    random = np.random.RandomState(0)
    rows = [f"{i},{i % 3},{'NS'[i % 2]},{'ab'[random.rand() < 0.7]}" for i in range(60)]
    assert not read(tmp_path, rows, "classification").notes
