"""The data sets `csv` and `parquet`: what becomes of each kind of column, errors by their keys."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simfl.common.files import DataMissing
from simfl.learning.datasets.csv import Csv
from simfl.learning.datasets.parquet import Parquet
from simfl.learning.datasets.table import Table

ROWS = """age, job,   who,  earns
20,   cook,  ann,  low
40,   smith, bob,  high
60,   cook,  ann,  high
80,   pilot, carl, low
"""
TEST = """age,job,earns
40,smith,high
100,clerk,low
50,welder,low
"""
WHOLE: dict[str, Any] = {"label": "earns", "owner": "who", "test": "test.csv"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With both files."""
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "test.csv").write_text(TEST)
    return tmp_path


def csv(**settings: Any) -> Csv:
    """The data set of the file rows.csv."""
    return Csv(**{"path": "rows.csv", **WHOLE, **settings})


def test_columns_become_features(folder: Path) -> None:
    """Categories in order of their names, then numbers; an unknown category sets no feature."""
    data = csv().load(folder, 1)

    ages = (np.array([20.0, 40.0, 60.0, 80.0]) - 50) / np.sqrt(500)
    assert data.train.inputs[:, :3].tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert data.train.inputs[:, 3].tolist() == pytest.approx(ages)
    assert data.test.inputs[:, :3].tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert data.test.inputs[:, 3].tolist() == pytest.approx([-10 / 500**0.5, 50 / 500**0.5, 0])
    assert data.train.targets.tolist() == [1, 0, 0, 1]
    assert data.test.targets.tolist() == [0, 1, 1]
    assert (data.task, data.outputs) == ("classification", 2)
    assert data.natural is not None and data.natural.tolist() == [0, 1, 0, 2]


def test_equal_numbers_have_no_deviation_to_be_divided_by(tmp_path: Path) -> None:
    """0.1 three times is 1e-17 from its own mean: a test row of 0.2 is no 7e15."""
    for name, x in (("rows.csv", 0.1), ("test.csv", 0.2)):
        pd.DataFrame({"x": x, "y": ["a", "b", "a"]}).to_csv(tmp_path / name, index=False)

    data = Csv("rows.csv", "y", test="test.csv").load(tmp_path, 1)

    assert data.train.inputs.flatten().tolist() == pytest.approx([0.0] * 3, abs=1e-9)
    assert data.test.inputs.flatten().tolist() == pytest.approx([0.1] * 3)


def test_what_is_a_feature_can_be_said(folder: Path) -> None:
    """A number as a category, raw numbers, columns left out."""
    by_age = csv(categorical=("age",), test=None, test_share=0.5).load(folder, 1)
    raw = csv(numeric=("age",), categorical=(), numbers="raw").load(folder, 1)
    left = csv(leave_out=("age",), owner=None, test=None, test_share=0.5).load(folder, 1)

    assert set(by_age.train.inputs.flatten().tolist()) == {0.0, 1.0}
    assert raw.train.inputs.tolist() == [[20], [40], [60], [80]]
    assert left.train.inputs.sum(1).tolist() == [2.0, 2.0]  # a job and a name


@pytest.mark.parametrize("kind", [Csv, Parquet])
@pytest.mark.parametrize(
    ("settings", "unused"),
    [
        ({}, []),
        ({"categorical": ("word",)}, ["other", "third"]),
        ({"categorical": ("word",), "leave_out": ("third",)}, ["other"]),
        ({"categorical": ("word", "x"), "leave_out": ("other", "third")}, []),
        ({"numeric": ("x",)}, ["z"]),
        ({"numeric": ("x",), "categorical": ()}, ["z", "word", "other", "third"]),
        ({"numeric": ("x", "z"), "categorical": ("word", "other", "third")}, []),
    ],
    ids=str,
)
def test_columns_that_nobody_named_are_known(
    tmp_path: Path, kind: type[Table], settings: dict[str, Any], unused: list[str]
) -> None:
    """A list names all columns of its kind; the label, and left-out columns, are no features."""
    words = {name: ["a", "b"] * 10 for name in ("word", "other", "third")}
    rows = pd.DataFrame({"x": range(20), "z": range(20), **words, "y": ["u", "v"] * 10})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")

    data = kind(f"rows.{kind.__name__.lower()}", "y", **settings).load(tmp_path, 1)

    message, columns = data.doubts.get("unused_columns", ("", 0))
    assert columns == len(unused)
    assert message.endswith(f": {', '.join(unused)}") == bool(unused)


@pytest.mark.parametrize("kind", [Csv, Parquet])
def test_columns_that_differ_in_most_rows_are_known(tmp_path: Path, kind: type[Table]) -> None:
    """Numbers of records and dates; not names that several rows share, nor a column left out."""
    rows = pd.DataFrame(
        {
            "x": np.linspace(0.0, 1.0, 60),
            "record": [f"r{place}" for place in range(60)],
            "town": [f"t{place % 22}" for place in range(60)],
            "day": pd.date_range("2020-01-01", periods=60),
            "y": ["u", "v"] * 30,
        }
    )
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    path = f"rows.{kind.__name__.lower()}"

    data = kind(path, "y").load(tmp_path, 1)
    without = kind(path, "y", leave_out=("record", "day")).load(tmp_path, 1)

    train = len(data.train)
    assert data.doubts["scattered_columns"] == (
        f"{2 * train} of the {data.input_shape[0]} features are single values of columns that"
        f" differ in most rows: record ({train}), day ({train})",
        2,
    )
    assert "scattered_columns" not in without.doubts


@pytest.mark.parametrize(
    ("number", "rows", "told"),
    [(-999.0, 3, True), (9999.0, 2, True), (-999.0, 1, False), (4.0, 3, False), (0.0, 20, False)],
)
def test_numbers_for_missing_values_are_known(
    tmp_path: Path, number: float, rows: int, told: bool
) -> None:
    """Far from all others, and in more than one row; columns of two numbers are not meant."""
    x = np.linspace(-1.0, 1.0, 60)
    x[:rows] = number
    flag = np.where(np.arange(60) % 3, 0.0, 1000.0)
    table = pd.DataFrame({"x": x, "flag": flag, "y": ["u", "v"] * 30})
    table.to_csv(tmp_path / "rows.csv", index=False)
    table.to_csv(tmp_path / "test.csv", index=False)

    data = Csv("rows.csv", "y", test="test.csv").load(tmp_path, 1)

    message, columns = data.doubts.get("placeholder_values", ("", 0))
    assert columns == told
    assert message.endswith(f": x ({number:g})") == told


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("Unnamed: 0", np.arange(60), True),
        ("n", np.arange(1, 61), True),
        ("n", np.arange(60) ** 2, True),
        ("n", np.random.default_rng(0).permutation(60), True),
        ("id", np.random.default_rng(0).permutation(90)[:60], True),
        ("Unnamed: 0", np.random.default_rng(0).permutation(90)[:60], True),
        ("n", np.random.default_rng(0).permutation(90)[:60], False),
        ("n", np.arange(60) / 2, False),
        ("n", np.arange(60) // 2, False),
        ("id", np.arange(60) // 2, False),
    ],
)
def test_a_column_that_numbers_the_rows_is_known(
    tmp_path: Path, name: str, values: np.ndarray, told: bool
) -> None:
    """As pandas' index does; the label is read off it where rows are sorted."""
    x = np.random.default_rng(1).normal(size=60)
    table = pd.DataFrame({name: values, "x": x, "y": ["u"] * 30 + ["v"] * 30})
    table.to_csv(tmp_path / "rows.csv", index=False)
    table.iloc[20:39].to_csv(tmp_path / "few.csv", index=False)

    data = Csv("rows.csv", "y").load(tmp_path, 1)

    assert "row_numbers" not in Csv("few.csv", "y").load(tmp_path, 1).doubts
    message, columns = data.doubts.get("row_numbers", ("", 0))
    assert columns == told
    assert (f"the file's rows ({name}):" in message) == told
    assert not Csv("rows.csv", "y", leave_out=(name,)).load(tmp_path, 1).doubts


def test_a_column_of_numbers_as_text_is_no_category(tmp_path: Path) -> None:
    """Each would be a feature. A few numbers may be categories, and `numeric` reads all."""
    numbers = [f"{place / 7:.4f}" for place in range(60)]
    rows = pd.DataFrame({"a": numbers, "few": ["0", "1", "2"] * 20, "y": ["u", "v"] * 30})
    rows.to_parquet(tmp_path / "rows.parquet")

    with pytest.raises(
        ValueError, match=r"column 'a' has numbers stored as text, such as '0.0000'"
    ):
        Parquet("rows.parquet", "y").load(tmp_path, 1)

    as_number = Parquet("rows.parquet", "y", numeric=("a",)).load(tmp_path, 1)
    assert as_number.input_shape == (4,)
    with pytest.raises(ValueError, match="label: column 'a' has numbers stored as text"):
        Parquet("rows.parquet", "a").load(tmp_path, 1)


def test_a_share_is_held_out_of_every_class(tmp_path: Path) -> None:
    """By the seed; owners stay with their rows."""
    rows = pd.DataFrame({"x": np.arange(100.0), "y": np.repeat([3, 7], 50), "o": np.arange(100)})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    dataset = Csv("rows.csv", "y", owner="o", numbers="raw")

    data, other = dataset.load(tmp_path, 1), dataset.load(tmp_path, 2)

    assert data.test.targets.bincount().tolist() == [10, 10]
    assert data.natural is not None and data.natural.shape == (80,)
    everything = sorted([*data.train.inputs[:, 0].tolist(), *data.test.inputs[:, 0].tolist()])
    assert everything == list(range(100))
    order = data.train.inputs[:, 0].numpy().argsort()
    assert data.natural[order].tolist() == list(range(80))
    assert data.test.inputs.tolist() != other.test.inputs.tolist()


def test_real_labels_are_a_regression_unless_said(tmp_path: Path) -> None:
    """By the type of the column, unless `task` is given."""
    rows = pd.DataFrame({"x": np.arange(10.0), "y": [0.5, 1.5] * 5, "z": [1, 2] * 5})
    rows.to_parquet(tmp_path / "rows.parquet")

    by_type = Parquet("rows.parquet", "y").load(tmp_path, 1)
    classes = Parquet("rows.parquet", "y", task="classification").load(tmp_path, 1)
    values = Parquet("rows.parquet", "z", task="regression").load(tmp_path, 1)

    assert (by_type.task, by_type.outputs) == ("regression", 1)
    assert set(by_type.train.targets.flatten().tolist()) == {0.5, 1.5}
    assert (classes.task, classes.outputs) == ("classification", 2)
    assert set(values.train.targets.flatten().tolist()) == {1.0, 2.0}


def test_what_is_held_out_goes_by_the_task(tmp_path: Path) -> None:
    """Any rows of a regression on whole numbers, not the lowest; of classes that are real, each."""
    rows = pd.DataFrame({"x": np.arange(100.0), "price": 10 * np.arange(100)})
    rows.assign(kind=np.where(rows.x < 10, 0.5, 1.5)).to_csv(tmp_path / "rows.csv", index=False)

    values = Csv("rows.csv", "price", task="regression").load(tmp_path, 1)
    classes = [
        Csv("rows.csv", "kind", task="classification").load(tmp_path, seed) for seed in range(5)
    ]

    assert len(values.test) == 20
    assert 300 < float(values.test.targets.mean()) < 700  # of all rows it is 495
    assert {tuple(one.test.targets.bincount().tolist()) for one in classes} == {(2, 18)}


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (["01", "02", "AB"], ["01", "02"]),  # numbers in the test file alone
        (["01", "02"], ["01", "02", "AB"]),
        (["1.0", "2.0"], ["1", "2"]),
    ],
)
def test_a_category_is_the_same_in_both_files(
    tmp_path: Path, train: list[str], test: list[str]
) -> None:
    """Though its cells look like numbers, or like other ones, in one of them."""
    for name, cells in (("rows.csv", train), ("test.csv", test)):
        lines = [f"{cell},{'ab'[place % 2]}" for place, cell in enumerate(cells)]
        (tmp_path / name).write_text("\n".join(["code,y", *lines]))

    data = Csv("rows.csv", "y", test="test.csv", categorical=("code",)).load(tmp_path, 1)

    known = min(len(train), len(test))
    assert data.test.inputs[:known].tolist() == data.train.inputs[:known].tolist()
    assert data.test.inputs[:known].sum(1).tolist() == [1.0] * known


def test_a_label_is_the_same_in_both_files(tmp_path: Path) -> None:
    """Classes "01" and "AB" of training; the test file has "01" alone, which is not 1."""
    (tmp_path / "rows.csv").write_text("x,y\n1,01\n2,AB\n")
    (tmp_path / "test.csv").write_text("x,y\n1,01\n2,01\n")

    data = Csv("rows.csv", "y", test="test.csv").load(tmp_path, 1)

    assert data.test.targets.tolist() == [0, 0]


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """The second label would be a feature under another name, and tell everything."""
    (tmp_path / "rows.csv").write_text("y,x,y\n" + "0,1,0\n1,2,1\n" * 5)

    with pytest.raises(ValueError, match="has several columns named 'y', accepted: diff"):
        Csv("rows.csv", "y").load(tmp_path, 1)


def test_decimals_and_columns_named_by_numbers(tmp_path: Path) -> None:
    """In Parquet files decimals are numbers like others, and a column 0 is called "0"."""
    prices = [Decimal(cents) / 100 for cents in range(1000, 1010)]
    rows = pd.DataFrame({0: prices, 1: [Decimal(place % 2) for place in range(10)]})
    rows.to_parquet(tmp_path / "rows.parquet")

    values = Parquet("rows.parquet", "0").load(tmp_path, 1)
    classes = Parquet("rows.parquet", "1").load(tmp_path, 1)

    assert values.task == "regression"
    assert (classes.task, classes.outputs, classes.input_shape) == ("classification", 2, (1,))


def test_a_label_of_lists_is_refused(tmp_path: Path) -> None:
    """It is no class."""
    pd.DataFrame({"x": range(10), "y": [[1, 2]] * 10}).to_parquet(tmp_path / "rows.parquet")

    with pytest.raises(ValueError, match=r"^label: column 'y' has lists, such as \[1, 2\]"):
        Parquet("rows.parquet", "y").load(tmp_path, 1)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zip"])
def test_a_damaged_archive_is_one_clear_error(tmp_path: Path, ending: str) -> None:
    """Whatever its library raises."""
    file = tmp_path / f"rows.csv.{ending}"
    pd.DataFrame({"x": range(1000), "y": 1}).to_csv(file)
    file.write_bytes(file.read_bytes()[:-30])

    with pytest.raises(ValueError, match="cannot be read as a table: "):
        Csv(file.name, "y").load(tmp_path, 1)


def test_rows_without_a_value_are_refused_or_left_out(tmp_path: Path) -> None:
    """Whole numbers beside them stay whole: the label has classes, and no real numbers."""
    text = "a;b;y\n1;x;0\n2;?;1\n3;x;\n4;z;1\n5;x;0\n6;z;1\n"
    (tmp_path / "rows.csv").write_text(text)
    dataset = Csv("rows.csv", "y", separator=";", missing_values=("?",), test_share=0.5)

    with pytest.raises(ValueError, match=r"^missing: found 2 of 6 rows .* row 2, column 'b'"):
        dataset.load(tmp_path, 1)
    data = Csv(**{**vars(dataset), "missing": "drop"}).load(tmp_path, 1)
    assert len(data.train) + len(data.test) == 4
    assert data.task == "classification"


def test_a_file_may_have_no_heading(tmp_path: Path) -> None:
    """Names are given; as many as there are columns."""
    (tmp_path / "rows.csv").write_text("1,a\n2,b\n3,a\n4,b\n")
    dataset = Csv("rows.csv", "kind", columns=("size", "kind"), numbers="raw", test_share=0.5)

    sizes = dataset.load(tmp_path, 1).train.inputs.flatten().tolist()
    assert len(sizes) == 2 and set(sizes) < {1, 2, 3, 4}
    with pytest.raises(ValueError, match="cannot be read as a table"):
        Csv("rows.csv", "kind", columns=("kind",)).load(tmp_path, 1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"numeric": ("age",), "leave_out": ("age",)},
            "^leave_out: found 'age', which is also in numeric",
        ),
        ({"label": "earn"}, "^label: no column 'earn', did you mean 'earns'"),
        ({"owner": "whose"}, "^owner: no column 'whose'"),
        ({"numeric": ("agee",)}, "^numeric: no column 'agee', did you mean 'age'"),
        ({"numeric": ("job",)}, "^numeric: column 'job' has text, such as 'cook'"),
        ({"numeric": ("earns",)}, "^numeric: found 'earns', which is the label"),
        ({"numeric": ("age",), "categorical": ("age",)}, "^categorical: found 'age', which is als"),
        (
            {"leave_out": ("age", "job")},
            "^leave_out: no column is left as a feature, out of age, job",
        ),
        ({"test": None, "test_share": 0.1}, "^test_share: found 0.1, which leaves 4 .* and 0 test"),
        ({"task": "regression"}, "^label: column 'earns': a regression takes numbers"),
        ({"label": "job", "leave_out": ()}, "^label: column 'job': .*clerk.* in no training row"),
        ({"separator": ";;"}, "^separator: found ';;', accepted: one character"),
    ],
)
def test_errors_begin_with_their_key(folder: Path, changed: dict[str, Any], message: str) -> None:
    """So that a scenario's error names the line."""
    with pytest.raises(ValueError, match=message):
        csv(**changed).load(folder, 1)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    """Absent, empty, binary, or with rows of other lengths."""
    with pytest.raises(DataMissing, match=r"^path: no file .*rows.csv; put it there or beside"):
        csv(test=None).load(tmp_path, 1)
    for content in (b"", b"\xff\xfe\x00", b"a,earns\n1,2,3\n", b'a,earns\n"1,2\n'):
        (tmp_path / "rows.csv").write_bytes(content)
        with pytest.raises(ValueError, match=r"rows.csv cannot be read as a table"):
            Csv("rows.csv", "earns").load(tmp_path, 1)
    (tmp_path / "rows.csv").write_text("a,earns\n")
    with pytest.raises(ValueError, match="has no rows"):
        Csv("rows.csv", "earns").load(tmp_path, 1)
    with pytest.raises(ValueError, match="cannot be read as a table"):
        Parquet("rows.csv", "earns").load(tmp_path, 1)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("id", "^categorical: .*1,600 different"),
        ("x", r"^numeric: column 'x' has inf in row 1801, accepted"),
        ("list", r"^categorical: column 'list' has lists, such as \[1, 2\]; accepted"),
    ],
)
def test_identifiers_infinities_and_lists_are_refused(
    tmp_path: Path, column: str, message: str
) -> None:
    """By the column."""
    rows = pd.DataFrame({"x": np.arange(2000.0), "y": np.arange(2000) % 2})
    rows["id"] = [f"n{number}" for number in range(2000)]
    rows.loc[1800, "x"] = np.inf if column == "x" else 5.0
    if column == "list":
        rows["list"] = [[1, 2]] * len(rows)
    # What the file calls its rows is not their number.
    rows.index += 100
    rows.to_parquet(tmp_path / "rows.parquet")
    table: Table = Parquet("rows.parquet", "y", leave_out=() if column == "id" else ("id",))

    with pytest.raises(ValueError, match=message):
        table.load(tmp_path, 1)


@pytest.mark.parametrize("key", ["numeric", "categorical"])
def test_a_column_is_named_once(key: str) -> None:
    """It would be two features, and count double."""
    with pytest.raises(ValueError, match=f"{key}: found 'age' twice, accepted: every column once"):
        csv(**{key: ("age", "job", "age")})


def test_whole_numbers_of_any_size_are_numbers(tmp_path: Path) -> None:
    """As features; named categories, labels and owners are what the file says, digit by digit."""
    large = [10**20 + 1, -3, 10**20 + 2, 5]
    lines = [f"{one},{row % 2}" for row, one in enumerate(large)]
    (tmp_path / "rows.csv").write_text("\n".join(["count,kind", *lines]))
    given: dict[str, Any] = {"path": "rows.csv", "test": "rows.csv"}

    raw = Csv(**given, label="kind", numbers="raw").load(tmp_path, 1)
    named = Csv(**given, label="kind", categorical=("count",)).load(tmp_path, 1)
    label = Csv(**given, label="count").load(tmp_path, 1)

    assert raw.train.inputs.reshape(-1).tolist() == pytest.approx([1e20, -3, 1e20, 5])
    assert named.input_shape == (4,)
    assert (label.task, label.outputs) == ("classification", 4)


def test_a_missing_value_beside_large_numbers_is_one(tmp_path: Path) -> None:
    """pandas reads such columns as text, with an empty cell as a text of no signs."""
    (tmp_path / "rows.csv").write_text(f"count,kind\n{2**63},0\n,1\n?,1\n7,0\n8,1\n9,0\n10,1\n")

    with pytest.raises(ValueError, match="missing: found 2 of 7 rows with a missing value, first"):
        Csv(path="rows.csv", label="kind", missing_values=("?",)).load(tmp_path, 1)


def test_text_of_numbers_is_numbers_where_that_is_said(tmp_path: Path) -> None:
    """A Parquet file has text; a cell that reads as no number is named."""
    rows = pd.DataFrame({"code": ["7", "8.5", "9"] * 4, "kind": [0, 1, 0] * 4})
    rows.to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "wrong.csv").write_text("code,kind\n7,0\nnone,1\n8,1\n9,0\n")
    said: dict[str, Any] = {"label": "kind", "numeric": ("code",), "numbers": "raw"}

    data = Parquet(path="rows.parquet", **said).load(tmp_path, 1)

    assert set(data.train.inputs.reshape(-1).tolist()) == {7.0, 8.5, 9.0}
    assert Parquet(path="rows.parquet", label="kind").load(tmp_path, 1).input_shape == (3,)
    with pytest.raises(ValueError, match="numeric: column 'code' has text, such as 'none'"):
        Csv(path="wrong.csv", **said).load(tmp_path, 1)


@pytest.mark.parametrize("files", [("rows.csv", "gaps.csv"), ("gaps.csv", "rows.csv")])
def test_truths_beside_missing_values_are_truths(tmp_path: Path, files: tuple[str, str]) -> None:
    """As a label they are the other file's, where rows without a value are left out."""
    (tmp_path / "rows.csv").write_text("x,ill\n1,TRUE\n2,FALSE\n3,TRUE\n")
    (tmp_path / "gaps.csv").write_text("x,ill\n1,TRUE\n2,\n3,FALSE\n4,TRUE\n")

    data = Csv(path=files[0], label="ill", test=files[1], missing="drop").load(tmp_path, 1)

    assert data.train.targets.tolist() == data.test.targets.tolist() == [1, 0, 1]


@pytest.mark.parametrize("kind", [Csv, Parquet])
def test_truths_beside_missing_values_are_one_feature(tmp_path: Path, kind: type[Table]) -> None:
    """As they are where none is missing: they were two categories."""
    rows = pd.DataFrame(
        {"smokes": [True, None, False, True, False] * 4, "ill": [0, 1, 1, 0, 1] * 4}
    )
    for name, part in (("gaps", rows), ("whole", rows.dropna().astype({"smokes": "bool"}))):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
        part.to_parquet(tmp_path / f"{name}.parquet")
    ending = kind.__name__.lower()

    said = {"label": "ill", "missing": "drop", "numbers": "raw"}
    gaps, whole = (
        kind(path=f"{name}.{ending}", **said).load(tmp_path, 1)  # type: ignore[arg-type]
        for name in ("gaps", "whole")
    )

    assert gaps.input_shape == (1,)
    assert gaps.train.inputs.tolist() == whole.train.inputs.tolist()


def test_a_class_too_rare_to_be_held_out_is_trained(tmp_path: Path) -> None:
    """Classes of one row; such tables were refused. They still are if most classes are like
    that.
    """
    kinds = [*"abcde", *["often"] * 15, *["most"] * 20]
    (tmp_path / "rows.csv").write_text(
        "x,kind\n" + "".join(f"{row},{kind}\n" for row, kind in enumerate(kinds))
    )
    (tmp_path / "prices.csv").write_text("x,y\n" + "".join(f"{row},{row}\n" for row in range(40)))

    data = Csv("rows.csv", "kind").load(tmp_path, 1)

    assert (len(data.train), len(data.test), data.outputs) == (33, 7, 7)
    assert np.bincount(data.train.targets).tolist() == [1, 1, 1, 1, 1, 16, 12]
    assert np.bincount(data.test.targets).tolist() == [0, 0, 0, 0, 0, 4, 3]
    with pytest.raises(ValueError, match=r"^label: found 40 classes of 40 rows, most .*regression"):
        Csv("prices.csv", "y").load(tmp_path, 1)
    assert Csv("prices.csv", "y", task="regression").load(tmp_path, 1).task == "regression"


@pytest.mark.parametrize("value", ["inf", "1e300"])
def test_a_label_that_is_not_finite_is_named_with_its_row(tmp_path: Path, value: str) -> None:
    """In the file's rows, and without a warning of numpy's."""
    cells = [f"{row},{value if row == 7 else row / 3}\n" for row in range(40)]
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(cells))

    with pytest.raises(
        ValueError, match=r"^label: column 'y' has (inf|1e\+300) in row 8, accepted"
    ):
        Csv("rows.csv", "y").load(tmp_path, 1)


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["1,234", "12", "1,000,000"], "numbers written as text, such as '1,234' in row 1"),
        (["3", "12%", "7 %"], "as '12%' in row 2"),
        (["3,14", "2", "1.234,5"], "as '3,14' in row 1"),
        (["$1,234.50", "-7", "0"], "as '$1,234.50' in row 1"),
        ([*map(str, range(30)), "?"], "numbers together with text, such as '?' in row 31"),
    ],
)
def test_numbers_that_are_written_as_text_are_refused(
    tmp_path: Path, cells: list[str], found: str
) -> None:
    """Each would be a category of its own; who means that names the column."""
    rows = {"a": cells, "b": range(len(cells)), "y": [f"{i % 2}" for i in range(len(cells))]}
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    learnt = {"path": "rows.csv", "test": "rows.csv"}

    with pytest.raises(ValueError, match="numeric: column 'a' has ") as told:
        Csv(**learnt, label="y").load(tmp_path, 1)
    assert found in str(told.value) and "accepted: numbers" in str(told.value)
    with pytest.raises(ValueError, match="label: column 'a' has ") as told:
        Csv(**learnt, label="a").load(tmp_path, 1)
    assert found in str(told.value)

    meant = Csv(**learnt, label="y", categorical=("a",)).load(tmp_path, 1)
    assert meant.input_shape == (len(cells) + 1,)
    classes = Csv(**learnt, label="a", task="classification").load(tmp_path, 1)
    assert classes.outputs == len(cells)


@pytest.mark.parametrize(
    "cells", [["0", "1", "2", "3+"], ["1.2.3", "10", "7"], ["A1", "12", "13"], ["x", "12%", "y"]]
)
def test_words_beside_numbers_are_categories(tmp_path: Path, cells: list[str]) -> None:
    """A few numbers do not make a column of numbers."""
    rows = {"a": cells, "y": [f"{i % 2}" for i in range(len(cells))]}
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)

    data = Csv(path="rows.csv", test="rows.csv", label="y").load(tmp_path, 1)

    assert data.input_shape == (len(cells),)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("number", ["0.5", "0,5"])
@pytest.mark.parametrize("columns", [None, ("a", "b", "y")])
def test_another_separator_is_told(
    tmp_path: Path, separator: str, number: str, columns: tuple[str, ...] | None
) -> None:
    """A file of one cell a row is no table, whatever its numbers look like."""
    lines = [] if columns else [separator.join("aby")]
    lines += [separator.join((number, str(i), "xz"[i % 2])) for i in range(10)]
    (tmp_path / "rows.csv").write_text("\n".join(lines))

    with pytest.raises(ValueError, match="separator: found ',', by which the first row") as told:
        Csv(path="rows.csv", label="y", columns=columns).load(tmp_path, 1)
    assert str(told.value).endswith(f"perhaps {separator!r}")


@pytest.mark.parametrize("key", ["label", "owner", "categorical"])
def test_values_that_differ_in_blanks_only_are_refused(tmp_path: Path, key: str) -> None:
    """They would be two classes, two clients or two features."""
    rows = {name: ["x", "z", "z", "x"] * 3 for name in ("label", "owner", "categorical")}
    rows[key][6] = "z "
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    dataset = Csv(path="rows.csv", label="label", owner="owner", test_share=0.25)

    with pytest.raises(ValueError, match=f"{key}: column {key!r} has ") as told:
        dataset.load(tmp_path, 1)
    assert "'z' in row 2" in str(told.value) and "'z ' in row 7" in str(told.value)
    pd.DataFrame(rows).replace("z ", "z").to_csv(tmp_path / "rows.csv", index=False)
    assert dataset.load(tmp_path, 1).outputs == 2


def test_blanks_in_one_of_two_files_are_refused(tmp_path: Path) -> None:
    """A category of the test rows would be unknown in training."""
    pd.DataFrame({"a": ["u", "v"], "y": ["0", "1"]}).to_csv(tmp_path / "rows.csv", index=False)
    pd.DataFrame({"a": ["u", "v "], "y": ["0", "1"]}).to_csv(tmp_path / "test.csv", index=False)

    with pytest.raises(ValueError, match=r"column 'a' has 'v' in row 2 and 'v ' in row 2, which"):
        Csv(path="rows.csv", test="test.csv", label="y").load(tmp_path, 1)


@pytest.mark.parametrize("kind", [Csv, Parquet])
@pytest.mark.parametrize(
    ("values", "task"), [([1.0, 2.0, 4.0, 5.0], "regression"), ([1, 2, 4, 5], "classification")]
)
def test_gaps_change_no_task(
    tmp_path: Path, kind: type[Table], values: list[float], task: str
) -> None:
    """Real labels that happen to be whole are no classes, be a value missing or not."""
    for name, labels in (("whole", values), ("gaps", [*values, None])):
        typed = pd.Series(labels, dtype="Int64" if task == "classification" else "float64")
        rows = pd.DataFrame({"x": range(len(labels)), "y": typed})
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
        rows.to_parquet(tmp_path / f"{name}.parquet")
        ending = kind.__name__.lower()
        files = {"path": f"{name}.{ending}", "test": f"whole.{ending}"}

        data = kind(**files, label="y", missing="drop").load(tmp_path, 1)

        assert (data.task, data.outputs) == (task, 1 if task == "regression" else 4)
