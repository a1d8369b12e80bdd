"""YAML as scenarios use it: values, lines, and one clear line for invalid YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simfl.scenario.yaml_source.error import ScenarioError, show
from simfl.scenario.yaml_source.source import read_source
from simfl.scenario.yaml_source.text import LARGEST_INTEGER, dump, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7e-29", 7e-29),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-2.5E+3", -2500.0),
        ("010", 10),
        ("0x1F", 31),
        ("true", True),
        ("yes", "yes"),
        ("off", "off"),
        ("none", "none"),
        ("~", None),
        ("", None),
        ("2021-01-01", "2021-01-01"),
        ("1:30", "1:30"),
        ("'3'", "3"),
        ("{1: a}", {"1": "a"}),
        ("[&x 1, *x]", [1, 1]),
    ],
)
def test_plain_values(text: str, value: object) -> None:
    """Numbers with exponents are numbers; yes, off and dates are text; keys are text."""
    found, _ = parse(text, "x.yaml")
    assert found == value
    assert type(found) is type(value)


def test_lines_of_all_key_paths() -> None:
    """Each key and each element of a list knows its line."""
    _, lines = parse("a: 1\nb:\n  c:\n    - x\n    - {d: 2}\n", "x.yaml")
    assert lines["a",] == 1
    assert lines["b", "c"] == 3
    assert lines["b", "c", 0] == 4
    assert lines["b", "c", 1, "d"] == 5


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"", 1, "found an empty file"),
        (b"# nothing\n", 1, "found an empty file"),
        (b"- a\n- b\n", 1, "found ['a', 'b'], accepted: a mapping"),
        (b"a: 1\nb: [1, 2\n", 3, "not valid YAML"),
        (b"a: 1\nb:\n\tc: 3\n", 3, "found a tab, accepted: spaces"),
        (b"a: 1\nb: 2\na: 3\n", 3, "a: found the key twice (also in line 1)"),
        (b"a: 1\n---\nb: 2\n", 2, "not valid YAML"),
        (b"a: !!python/object:os.system x\n", 1, "a: found the tag"),
        (b"a: !!int x\n", 1, "a: found 'x', accepted: a value of the tag int"),
        (b"? [1, 2]\n: 3\n", 1, "text as a key"),
        (b"a: &a [*a]\n", 1, "aliases without end"),
        (b"a: 1\nb: \xff\n", 2, "found a byte that is not UTF-8 (0xff)"),
        (b"a: 1\nb: \x07\n", 2, "found the character"),
        (b"a: " + b"[" * 5000, None, "endless nesting"),
        (b"a: 1\nb: " + b"9" * 400, 2, "b: found '9999"),
        (b"a: 9223372036854775808\n", 1, "an integer up to 9223372036854775807; larger numbers as"),
        (b"a: 0x" + b"f" * 400, 1, "a: found '0xfff"),
        (b"a: " + b"9" * 5000, 1, "a: found '9999"),
        ("a: 1".encode("utf-16"), 1, "found a byte that is not UTF-8 (0xff)"),
        (b"a: *nobody\n", 1, "not valid YAML"),
    ],
)
def test_what_is_no_scenario_file_is_refused_in_one_line(
    content: bytes, line: int | None, words: str, tmp_path: Path
) -> None:
    """The file and, where there is one, the line are named; never a traceback."""
    file = tmp_path / "x.yaml"
    file.write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        read_source(file)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{file}:")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_aliases_of_aliases_do_not_fill_the_memory(tmp_path: Path) -> None:
    """Ten levels of ten aliases would be 10^10 values."""
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 11)]
    file = tmp_path / "x.yaml"
    file.write_text("\n".join(["a0: &a0 1", *levels]))
    with pytest.raises(ScenarioError, match="aliases without end"):
        read_source(file)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    """The path is named as it was given."""
    with pytest.raises(ScenarioError, match=r"x\.yaml: found no such file"):
        read_source(tmp_path / "x.yaml")
    with pytest.raises(ScenarioError, match="an unreadable file"):
        read_source(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    """Editors that write one do not break the file."""
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xef\xbb\xbfseed: 3\n")
    assert read_source(file).content == {"seed": 3}


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="ascii", min_codepoint=32), max_size=8)
    | st.sampled_from(["1e3", "yes", "null", "0x1F", "2021-01-01", "=", "<<", "ünï", "a\nb"])
)


@given(
    st.dictionaries(
        st.text("abc_1", min_size=1, max_size=4),
        st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=6),
        max_size=4,
    )
)
def test_what_is_written_reads_back(content: dict[str, object]) -> None:
    """`parse` inverts `dump`, types included, also for text that looks like a number."""
    found, _ = parse(dump(content), "x.yaml")
    assert repr(found) == repr(content)


def test_a_value_is_shown_in_one_short_line() -> None:
    """Text is quoted, long values are cut."""
    assert show({"a": [1, "x", None, True]}) == "{a: [1, 'x', null, true]}"
    assert show("a\nb") == r"'a\nb'"
    assert len(show("x" * 500)) == 80


@pytest.mark.parametrize("text", ["22:00", "23:59:30", "off", "yes", "2026-01-02", "1_000", "0b1"])
def test_text_that_other_readers_take_for_something_else_is_quoted(text: str) -> None:
    """So that a run folder's scenario can be loaded, changed and run by a user of PyYAML."""
    written = dump({"start_time": text, "name": "plain"})

    assert yaml.safe_load(written) == {"start_time": text, "name": "plain"}
    assert parse(written, "file")[0] == {"start_time": text, "name": "plain"}
    assert "name: plain" in written
