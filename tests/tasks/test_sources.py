"""Rows from every kind of place; every mistake names its line and what would be right."""

from __future__ import annotations

import json
import sys

import pytest

from taut.tasks import sources
from taut.tasks.sources import read_jsonl, read_rows

ROWS = [{"prompt": "1+1=", "n": 2}, {"prompt": "ü", "n": 3}]
VERL = {
    "data_source": "openai/gsm8k",
    "prompt": [{"role": "user", "content": "1+1?"}],
    "ability": "math",
    "reward_model": {"style": "rule", "ground_truth": "2"},
    "extra_info": {"split": "train", "index": 0},
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes, name: str = "rows.jsonl") -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])  # with and without a byte-order mark
def test_one_object_a_line(write, start):
    content = start + '{"prompt": "1+1=", "n": 2}\r\n\n  \n{"prompt": "ü", "deep": {"a": [1]}}'.encode()
    assert read_jsonl(write(content)) == [{"prompt": "1+1=", "n": 2}, {"prompt": "ü", "deep": {"a": [1]}}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no rows"),
        ("\n \n", "holds no rows"),
        ('{"a": 1}\n\n{"a": 1', r"rows\.jsonl, line 3 is not JSON"),
        ('{"a": 1}\n[1]', r"rows\.jsonl, line 2 must be a JSON object, not a list"),
        ('"text"', r"line 1 must be a JSON object, not a str"),
        (b'{"a": 1}\n{"a": "\xff"}', r"line 2 is not UTF-8: invalid start byte at byte 7"),
    ],
)
def test_what_is_no_row_is_named_with_its_line(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_rows(write(content))


@pytest.mark.parametrize(
    "path", ["nowhere.jsonl", "no/where.jsonl", "no/where.parquet", "../rows", "nowhere"]
)
def test_a_missing_file_is_named(path):
    with pytest.raises(ValueError, match=f"data file {path} does not exist"):
        read_rows(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl", "\n".join(map(json.dumps, ROWS))),
        ("rows.txt", "\n".join(map(json.dumps, ROWS))),
        ("rows.json", json.dumps(ROWS)),
        ("rows.csv", "prompt,n\n1+1=,2\nü,3\n"),
        ("rows.tsv", "prompt\tn\n1+1=\t2\nü\t3\n"),
    ],
)
def test_files_by_their_ending(write, name, content):
    assert read_rows(write(content, name)) == ROWS


def test_verls_parquet_is_read_as_it_is(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist([VERL, VERL]), tmp_path / "train.parquet")
    assert read_rows(str(tmp_path / "train.parquet")) == [VERL, VERL]


def test_a_folder_of_files(write, tmp_path):
    write("prompt,n\n1+1=,2\n", "folder/a.csv")
    write("prompt,n\nü,3\n", "folder/b.csv")
    assert read_rows(str(tmp_path / "folder")) == ROWS


def test_a_folder_that_datasets_saved(tmp_path):
    import datasets

    datasets.Dataset.from_list(ROWS).save_to_disk(str(tmp_path / "saved"))
    assert read_rows(str(tmp_path / "saved")) == ROWS


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("openai/gsm8k", ("openai/gsm8k", None, "train")),
        ("openai/gsm8k:main", ("openai/gsm8k", "main", "train")),
        ("openai/gsm8k:main:test", ("openai/gsm8k", "main", "test")),
        ("openai/gsm8k::test", ("openai/gsm8k", None, "test")),
        ("some.one/data.v2", ("some.one/data.v2", None, "train")),
    ],
)
def test_a_hub_id_names_config_and_split(monkeypatch, path, asked):
    import datasets

    def load_dataset(name, config, split):
        assert (name, config, split) == asked
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    assert read_rows(path) == ROWS


def test_what_datasets_cannot_read_is_named(write, tmp_path):
    with pytest.raises(ValueError, match=r"data .*rows\.parquet could not be read: .*Parquet"):
        read_rows(write("no parquet", "rows.parquet"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"data folder .*empty is empty"):
        read_rows(str(tmp_path / "empty"))
    with pytest.raises(ValueError, match=r"rows\.csv could not be read: .*no data"):
        read_rows(write("prompt,n\n", "rows.csv"))


def test_jsonl_needs_no_library_and_the_rest_names_its_extra(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert sources.read_rows(write('{"a": 1}')) == [{"a": 1}]
    with pytest.raises(ImportError, match=r"pip install 'taut\[data\]'"):
        sources.read_rows(write("a\n1\n", "rows.csv"))
