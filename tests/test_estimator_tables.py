"""Tables as people bring them: separators, encodings, kinds of columns, bad cells, preparation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import examples
from dims.errors import TableError
from dims.estimators import tables
from dims.estimators.tables.cells import parse_numbers
from dims.estimators.tables.columns import parse_dates
from dims.estimators.tables.unlearned import unlearned, unlearned_notes


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "t.csv"
    path.write_bytes(text.encode(encoding))
    return path


def numbers_of(text: list[str | None], decimal: str = ".") -> list[float | None]:
    found = parse_numbers(pd.Series(text, dtype="object"), decimal)
    return [None if np.isnan(value) else value for value in found]


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        ("a,b\n1.5,2\n", "utf-8", (",", ".", "utf-8")),
        ("a;b\n1,5;2\n", "utf-8", (";", ",", "utf-8")),
        ("a;b\n1.5;2\n", "utf-8", (";", ".", "utf-8")),
        ("a\tb\n1,5\t2\n", "utf-8", ("\t", ",", "utf-8")),
        ("a|b\n1.5|2\n", "utf-8", ("|", ".", "utf-8")),
        ("Größe;b\n1,5;2\n", "latin-1", (";", ",", "cp1252")),
        ("Größe,b\n1.5,2\n", "utf-16", (",", ".", "utf-16")),
        ("Größe,b\n1.5,2\n", "utf-8-sig", (",", ".", "utf-8-sig")),
        ('a,b\n"1,250",2\n', "utf-8", (",", ".", "utf-8")),
        ('a,b\n"1,5",2\n', "utf-8", (",", ",", "utf-8")),
    ],
)
def test_the_format_of_a_file_is_found(tmp_path, text, encoding, found):
    table = tables.read_text(written(tmp_path, text, encoding))
    assert table.format == tables.Format(*found)
    first = "Größe" if "Größe" in text else "a"
    assert list(table.cells.columns) == [first, "b"]
    assert table.cells["b"].tolist() == ["2"]


def test_numbers_as_people_write_them():
    assert numbers_of(["1", " -2.5", "1e3", "1,250.5", "12 %", "$3", "€ 4", None]) == [
        *(1, -2.5, 1000, 1250.5, 12, 3, 4),
        None,
    ]
    assert numbers_of(["1,5", "1.250,5", "1.250", "7"], ",") == [1.5, 1250.5, 1250, 7]
    assert numbers_of(["abc", "inf", "nan", "1_0", "1,2,3", "0x1"]) == [None] * 6
    assert numbers_of(["1.5"], ",") == [None]


def test_dates_are_years():
    found = parse_dates(pd.Series(["2000-01-01", "2010-07-02", None, "x"]), "%Y-%m-%d")
    assert found[:2].tolist() == pytest.approx([2000, 2010.5], abs=0.01)
    assert found[2:].isna().all()


def test_lines_are_those_of_the_file(tmp_path):
    """Blank lines and line breaks inside of cells count."""
    text = 'a,b\n1,x\n\n"2","y\nz"\n3,w\n,\n4,v\n'
    table = tables.read_text(written(tmp_path, text))
    assert table.cells["a"].tolist() == ["1", "2", "3", "4"]
    assert table.lines.tolist() == [2, 4, 6, 8]


def houses(rows: int = 40) -> str:
    """Every kind of column; line 7 has a bad cell, line 9 a missing one."""
    random = np.random.RandomState(0)
    lines = ["id,size,side,garden,built,note,same,rating,price"]
    for row in range(rows):
        size = {5: "large", 7: "n/a"}.get(row, f"{random.uniform(30, 150):.1f}")
        side, garden = random.choice(list("NESW")), random.choice(["yes", "no"])
        date = f"{random.randint(1, 28):02d}.{random.randint(1, 12):02d}.{1990 + row % 30}"
        rest = f"text {row},1,{random.randint(1, 6)},{random.uniform(100, 400):.2f}"
        lines.append(f"{100 + row},{size},{side},{garden},{date},{rest}")
    return "\n".join(lines)


def test_every_column_gets_a_kind_and_a_reason(tmp_path):
    table = tables.read_text(written(tmp_path, houses()))
    found = tables.choose_columns(table, "price")
    assert {name: column.kind for name, column in found.items()} == {
        "id": "leave out",
        "size": "number",
        "side": "category",
        "garden": "category",
        "built": "date %d.%m.%Y",
        "note": "leave out",
        "same": "leave out",
        "rating": "number",
    }
    assert "identifier" in found["id"].why
    assert "1 missing" in found["size"].why
    assert "2 levels" in found["garden"].why
    assert "40 different entries" in found["note"].why
    assert tables.choose_task(table, "price").kind == "regression"
    rating = tables.choose_task(table, "rating")
    assert rating.kind == "classification"
    assert "if their order counts, as in a rating, regression" in rating.why
    assert tables.choose_task(table, "garden").kind == "classification"


@pytest.mark.parametrize(
    ("name", "first", "others", "kind"),
    [
        ("row", 1, True, "leave out"),
        ("customer_id", 7000, True, "leave out"),
        ("customerId", 7000, True, "leave out"),
        ("", 0, True, "leave out"),  # the index that pandas writes
        ("t", 1, True, "leave out"),  # counts the rows
        ("t", 1, False, "number"),  # but it is all there is
        ("year", 1980, True, "number"),
        ("humid", 1980, True, "number"),
    ],
)
def test_identifiers_are_left_out(tmp_path, name, first, others, kind):
    extra = (",x", ",0.{0}") if others else ("", "")
    lines = [f"{name}{extra[0]},y"]
    lines += [f"{first + i}{extra[1].format(i)},{i * 1.5}" for i in range(20)]
    table = tables.read_text(written(tmp_path, "\n".join(lines)))
    assert tables.choose_columns(table, "y")[name or "column 1"].kind == kind


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["2020-01-31", "2021-05-06"], "%Y-%m-%d"),
        (["2020-01-31 12:30", "2021-05-06 01:02"], "%Y-%m-%d %H:%M"),
        (["2020-01-31T12:30:05", "2021-05-06T01:02:03"], "%Y-%m-%dT%H:%M:%S"),
        (["31/01/2020", "05/06/2021"], "%d/%m/%Y"),
        (["01/31/2020", "05/06/2021"], "%m/%d/%Y"),
        (["31.1.2020", "5.6.2021"], "%d.%m.%Y"),
        (["3 Jan 2020", "14 May 2021"], "%d %b %Y"),
    ],
)
def test_forms_of_dates_are_found(tmp_path, cells, form):
    rows = [f"{cell},{i}.5" for i, cell in enumerate(cells * 10)]
    table = tables.read_text(written(tmp_path, "\n".join(["when,y", *rows])))
    assert tables.choose_columns(table, "y")["when"].kind == f"date {form}"


def kinds_of(path: Path, target: str) -> dict[str, str]:
    found = tables.choose_columns(tables.read_text(path), target)
    return {name: column.kind for name, column in found.items()}


def test_bad_cells_are_named_and_only_they_are_lost(tmp_path):
    path = written(tmp_path, houses().replace("text 3,1,", "text 3,1,x"))
    path.write_text(path.read_text() + "\n140,50,N,no,01.01.2000,t,1,3,dear\n141,50,N,no,1,t,1,3,")
    table = tables.read(path, kinds_of(path, "price"), "price", "regression")
    assert table.notes[0] == "line 42, column 'price': 'dear' is not a number; left out"
    assert table.notes[1] == "2 rows without 'price' left out"
    assert "line 7, column 'size': 'large' is not a number; taken as missing" in table.notes
    assert "line 43, column 'built': '1' is not a date %d.%m.%Y; taken as missing" in table.notes
    assert len(table) == 40
    assert table.inputs["size"].isna().sum() == 2
    assert table.lines[0] == 2


def column_of(path: Path, cells: list[str]) -> tables.Column:
    rows = [f"{cell},{i}.5" for i, cell in enumerate(cells)]
    found = tables.choose_columns(tables.read_text(written(path, "\n".join(["a,y", *rows]))), "y")
    return found["a"]


NUMBERS = [f"{i}.25" for i in range(30)]
DATES = [f"{i + 1:02d}.03.2020" for i in range(30)]


@pytest.mark.parametrize(
    ("good", "wanted"), [(NUMBERS, "number"), (DATES, "date %d.%m.%Y")], ids=["numbers", "dates"]
)
@pytest.mark.parametrize("bad", [1, 2, 6])
def test_some_bad_cells_do_not_cost_the_column(tmp_path, good, wanted, bad):
    """Up to a fifth; one note names the first five, and counts the others."""
    cells = [*good[: 30 - bad], *(f"about {i}" for i in range(bad))]
    column = column_of(tmp_path, cells)
    assert column.kind == wanted
    assert f"{bad} of 30 cells {'is no' if bad == 1 else 'are not'}" in column.why
    table = tables.read(tmp_path / "t.csv", {"a": column.kind}, "y", "regression")
    assert table.inputs["a"].isna().sum() == bad
    (note,) = table.notes
    lines = ", ".join(map(str, range(32 - bad, 32)[:5]))
    more = " and 1 more" * (bad == 6)
    assert note.startswith(f"line{'s' * (bad > 1)} {lines}{more}, column 'a': ")
    cells = ", ".join(f"'about {i}'" for i in range(bad)[:5])
    none = f"{cells} is not" if bad == 1 else f"none of {cells}{', …' * (bad > 5)} is"
    assert note.endswith(f"{none} a {wanted}; taken as missing")


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        # A number in every other row of free text, in a fourth of a category, and "5+" as a level.
        ([f"{i}" if i % 2 else f"see note {i}" for i in range(30)], "leave out"),
        ([("12", "north", "south", "east")[i % 4] for i in range(30)], "category"),
        ([("1", "2", "3", "4", "5+")[i % 5] for i in range(30)], "category"),
        ([("1", "2", "3", "4", "five")[i % 5 if i < 5 else i % 4] for i in range(30)], "number"),
        ([*NUMBERS[:23], *(f"about {i}" for i in range(7))], "leave out"),
    ],
)
def test_text_with_some_numbers_stays_text(tmp_path, cells, kind):
    rows = [f"{cell},{i}.25,{i}.5" for i, cell in enumerate(cells)]
    path = written(tmp_path, "\n".join(["a,b,y", *rows]))
    assert kinds_of(path, "y")["a"] == kind


def test_strange_cells_of_a_count_are_bad_cells(tmp_path):
    """It became a category, because its few strange cells are there again and again."""
    strange = ["???"] * 4 + ["drei"] * 6 + ["-"] * 3
    cells = [*(str(1 + i % 8) for i in range(287)), *strange]
    column = column_of(tmp_path, cells)
    assert column == tables.Column(
        "number", "from 1 to 8, 10 of 297 cells are not numbers, 3 missing"
    )
    table = tables.read(tmp_path / "t.csv", {"a": "number"}, "y", "regression")
    assert table.notes == [
        "lines 289, 290, 291, 292, 293 and 5 more, column 'a': none of '???', 'drei' is a number; "
        "taken as missing"
    ]
    assert table.inputs["a"].isna().sum() == 13


def test_text_that_is_a_level_beside_numbers_is_named(tmp_path):
    cells = [*(str(1 + i % 4) for i in range(90)), *["5+"] * 4, *["many"] * 6, "drei"]
    assert column_of(tmp_path, cells) == tables.Column(
        "category",
        "7 levels (1, 2, 3, 4, many, …); levels beside the numbers: 'many' (6 cells), '5+' "
        "(4 cells)",
    )


def test_the_same_target_is_numbers_or_classes(tmp_path):
    path = written(tmp_path, houses())
    kinds = {"size": "number"}
    assert tables.read(path, kinds, "rating", "regression").target.dtype == float
    classes = tables.read(path, kinds, "rating", "classification").target
    assert set(classes) <= set("12345")
    with pytest.raises(TableError, match=r'40 different values .* set TASK = "regression"'):
        tables.read(path, kinds, "price", "classification")
    with pytest.raises(TableError, match='set TASK = "classification"'):
        tables.read(path, kinds, "side", "regression")


def test_columns_become_numbers(tmp_path):
    """One-hot columns, the median with an indicator, rare and unknown levels, years."""
    path = written(tmp_path, houses().replace(",N,", ",X,", 1))
    kinds = kinds_of(path, "price")
    table = tables.read(path, kinds, "price", "regression")
    table.inputs.loc[10:17, "size"] = None
    made = tables.preparation(kinds).fit(table.inputs)
    names = list(made.get_feature_names_out())
    assert names[:4] == ["size", "built", "rating", "missingindicator_size"]
    assert {"side_E", "side_S", "side_infrequent_sklearn", "garden_no", "garden_yes"} <= set(names)
    features = dict(zip(names, made.transform(table.inputs).T, strict=True))
    assert features["size"][5] == features["size"][7] == table.inputs["size"].median()
    assert np.flatnonzero(features["missingindicator_size"]).tolist() == [5, 7, *range(10, 18)]
    assert (features["built"] > 1989.9).all()
    (tmp_path / "new.csv").write_text("garden,built,size,rating,side\nmaybe,,,3,Q\nyes,,5,3,\n")
    new = tables.read_inputs(tmp_path / "new.csv", kinds)
    later = dict(zip(names, made.transform(new.inputs).T, strict=True))
    assert later["side_infrequent_sklearn"].tolist()[0] == 1
    assert (later["garden_no"][0], later["garden_yes"][0]) == (0, 0)
    assert all(np.isfinite(column).all() for column in later.values())
    notes = unlearned_notes(unlearned(made, None, new), None, new)
    said = "was not in the rows that were learned from; taken as a rare level"
    assert notes == [
        f"line 2, column 'side': 'Q' {said}",
        "line 3, column 'side': missing, as in none of the rows that were learned from; taken as a "
        "rare level",
        f"line 2, column 'garden': 'maybe' {said}",
    ]


def test_a_split_keeps_every_class_in_the_rows_to_learn_from(tmp_path):
    rows = [f"{i}.5,{'rare' if i == 3 else 'ab'[i % 2]}" for i in range(20)]
    path = written(tmp_path, "\n".join(["x,kind", *rows]))
    table = tables.read(path, {"x": "number"}, "kind", "classification")
    for seed in range(20):
        known, held_out = table.split(0.3, seed)
        assert "rare" in known.target
        assert sorted([*known.lines, *held_out.lines]) == table.lines.tolist()
        assert 5 <= len(held_out) <= 6


def read_as_init_does(path: Path) -> tables.Table:
    table = tables.read_text(path)
    target = str(table.cells.columns[-1])
    task = tables.choose_task(table, target).kind
    return tables.read(path, kinds_of(path, target), target, task)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("a\n1\n", "first line of .* is one column, 'a'; put one of , ; . or a tab between"),
        ("a,a\n1,2\n", "name every column once; it has 'a' more than once"),
        ("1,2\n3,4\n", "has numbers; it must name the columns"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 cells, and the first line 2"),
        ("PK\x03\x04rest", "is a spreadsheet"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, text, said):
    with pytest.raises(TableError, match=said):
        tables.read_text(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "one value only"),
        ("a,b\n1,\n", "'b' is empty"),
        ("a,b\n1,2\n2,3\n", "2 rows of .* have a 'b' that can be used; at least 10"),
        ("a,b\n" + "x,1\nx,2\n" * 10, "no column beside 'b' can be used .a: one value only"),
    ],
)
def test_a_table_that_will_not_do_is_refused(tmp_path, text, said):
    path = written(tmp_path, text)
    with pytest.raises(TableError, match=said):
        read_as_init_does(path)


@settings(max_examples=examples(100))
@given(
    content=st.binary(max_size=60)
    | st.text("ab1,;\"\n\t -.'|\0é", max_size=60).map(lambda text: text.encode("latin-1"))
)
def test_any_bytes_are_a_table_or_refused_in_one_line(content, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "fuzzed.csv"
    path.write_bytes(content)
    refusal = "one line"
    try:
        assert len(read_as_init_does(path)) >= 10
    except TableError as error:
        refusal = str(error)
    assert len(refusal.splitlines()) == 1
