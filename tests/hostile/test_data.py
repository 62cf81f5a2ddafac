"""Prompts that are none, and files that hold none."""

import json

import pytest

JSONL = "bad.jsonl"


def row(**columns):
    return json.dumps({"prompt": "1+1=", "answer": "2", **columns}, ensure_ascii=False)


def chat(*messages):
    return row(prompt=list(messages))


FILES = {
    # name, file, content, the thing, the fix
    "empty": (JSONL, "", "bad.jsonl", "no rows"),
    "blank lines": (JSONL, "\n \n\r\n", "bad.jsonl", "no rows"),
    "binary": (JSONL, b"\x00\xff\xfe\x00", "bad.jsonl, line 1", "UTF-8|JSON"),
    "utf-16": (JSONL, row().encode("utf-16"), "bad.jsonl, line 1", "UTF-8"),
    "latin-1": (JSONL, row(answer="é").encode("latin-1"), "bad.jsonl, line 1", "UTF-8"),
    "a comma too many": (JSONL, row() + '\n{"prompt": "1+1=",}\n', "bad.jsonl, line 2", "JSON"),
    "half a line": (JSONL, row() + "\n" + row()[:12], "bad.jsonl, line 2", "JSON"),
    "quotes of one stroke": (JSONL, "{'prompt': '1+1='}", "bad.jsonl, line 1", "JSON"),
    "a line that is a list": (JSONL, '["1+1="]', "bad.jsonl, line 1", "JSON object"),
    "a line that is a text": (JSONL, '"1+1="', "bad.jsonl, line 1", "JSON object"),
    "a line that is null": (JSONL, "null", "bad.jsonl, line 1", "JSON object"),
    "one list over all lines": (JSONL, '[\n{"prompt": "1+1="}\n]', "bad.jsonl, line 1", "JSON"),
    "as deep as a stack": (JSONL, '{"prompt": ' + "[" * 10**5 + "]" * 10**5 + "}", "bad.jsonl, line 1", "nest"),
    "a number of 5,000 digits": (JSONL, f'{{"prompt": "1+1=", "answer": {"9" * 5000}}}', "bad.jsonl, line 1", "digits"),
    "a key twice": (JSONL, '{"prompt": "1+1=", "prompt": "2+2=", "answer": 1}', "bad.jsonl, line 1", "twice"),
    "no such column": (JSONL, row().replace("prompt", "question"), "bad.jsonl, row 1", "data.prompt_column|question"),
    "no such column in one row": (JSONL, row() + '\n{"answer": "2"}', "bad.jsonl, row 2", "answer"),
    "no answer": (JSONL, (row().replace("answer", "target") + "\n") * 4, "'answer'; row 1", "Rename the column"),
    "no answer in one row": (JSONL, (row() + "\n") * 4 + row(answer=None), "'answer'; row 5", "Rename the column"),
    "a number for a prompt": (JSONL, row(prompt=12), "row 1: the prompt", "must be text"),
    "a fraction for a prompt": (JSONL, row(prompt=1.5), "row 1: the prompt", "must be text"),
    "nan for a prompt": (JSONL, '{"prompt": NaN, "answer": "2"}', "row 1: the prompt", "must be text"),
    "null for a prompt": (JSONL, row(prompt=None), "row 1: the prompt", "must be text"),
    "true for a prompt": (JSONL, row(prompt=True), "row 1: the prompt", "must be text"),
    "an object for a prompt": (JSONL, row(prompt={"text": "1+1="}), "row 1: the prompt", "must be text"),
    "texts for a prompt": (JSONL, row(prompt=["1+1="]), "row 1: the prompt", "object with role and content"),
    "no messages": (JSONL, row(prompt=[]), "row 1: the prompt", "must be text or a list of messages"),
    "an empty prompt": (JSONL, row(prompt=""), "row 1 is empty", "at least one token"),
    "a message without a role": (JSONL, chat({"content": "1+1="}), "row 1", "role and content"),
    "a message without content": (JSONL, chat({"role": "user"}), "row 1", "must be text"),
    "a role that is a number": (JSONL, chat({"role": 1, "content": "1"}), "row 1", "role and content"),
    "a conversation in a conversation": (
        JSONL, chat({"role": "user", "content": [{"role": "user", "content": "1"}]}), "row 1", "must be text"),
    "a conversation for a model without": (
        JSONL, chat({"role": "user", "content": "1+1="}), "row 1 is a conversation", "write prompts as text"),
    "template arguments that are none": (
        JSONL, row(prompt=[{"role": "user", "content": "1"}], chat_template_kwargs=[1]),
        "row 1: chat_template_kwargs", "an object"),
    "what the vocabulary lacks": (JSONL, row(prompt="🙂"), "row 1", "cannot encode"),
    "half a surrogate": (JSONL, '{"prompt": "\\ud83d", "answer": "2"}', "row 1", "cannot encode"),
    "a null character": (JSONL, row(prompt="1+1\0="), "row 1", "cannot encode"),
    "10 MB in a prompt": (JSONL, row(prompt="1" * 10**7), "row 1: .* at least 39062 tokens", "data.max_prompt_tokens"),
    "10 MB in a message": (
        JSONL, chat({"role": "user", "content": "1" * 10**7}), "has at least 39062 tokens", "data.max_prompt_tokens"),
    "longer than the model": (JSONL, (row(prompt="1" * 63) + "\n") * 4, "63 tokens", "set it to 1 or less"),
    "longer than the limit": (JSONL, row(prompt="1" * 1025), "row 1: the prompt has 1025 tokens", "skip"),
    "fewer prompts than a batch": (JSONL, row(), "1 prompts", "set it to 1 or less"),
    # other kinds of file
    "json that is none": ("bad.json", "[{]", "bad.json", "read"),
    "json, a number": ("bad.json", "12", "bad.json", "read|rows"),
    "json, empty": ("bad.json", "", "bad.json", "read|rows"),
    "json, no rows": ("bad.json", "[]", "bad.json", "read|rows"),
    "json, mixed types": ("bad.json", '[{"prompt": "1"}, {"prompt": 1}]', "bad.json, row 1", "must be text"),
    "csv, empty": ("bad.csv", "", "bad.csv", "read|rows"),
    "csv, only a header": ("bad.csv", "prompt,answer\n", "bad.csv", "no data"),
    "csv, no header": ("bad.csv", "1+1=,2\n2+2=,4\n", "bad.csv, row 1", r"its columns are: 1\+1=, 2"),
    "csv, a column twice": ("bad.csv", "prompt,prompt,answer\n1,2,3\n", "bad.csv", "twice"),
    "csv, more cells than columns": ("bad.csv", "prompt,answer\n1,2\n1,2,3,4\n", "bad.csv", "read"),
    "csv, numbers for prompts": ("bad.csv", "prompt,answer\n1,2\n3,4\n", "row 1: the prompt", "must be text"),
    "csv, an empty cell": ("bad.csv", "prompt,answer\na,2\n,4\n", "row [12]", "must be text|cannot encode"),
    "csv, binary": ("bad.csv", b"\x00\xff\xfe\x00,\x81", "bad.csv", "read|column"),
    "tsv with commas": ("bad.tsv", "prompt,answer\n1,2\n", "bad.tsv, row 1", "its columns are: prompt,answer"),
    "parquet that is none": ("bad.parquet", "PAR1 and nothing more", "bad.parquet", "read"),
    "parquet, empty": ("bad.parquet", b"", "bad.parquet", "no rows"),
}  # fmt: skip
PLACES = {
    "a file that is not there": ("none.jsonl", "none.jsonl", "does not exist"),
    "a folder that is not there": ("none/of/this", "none/of/this", "does not exist"),
    "an empty folder": ("empty", "empty", "is empty"),
    "a folder of other things": ("model", "model", "read"),
    "a device": ("/dev/null", "/dev/null", "does not exist|no rows|not a file"),
    "a task that is none": ("reasoning-gym:nothing", "nothing", "reasoning|pip install"),
    "a hub id that cannot be": ("a/b/c/d", "a/b/c/d", "does not exist"),
    "an empty name": ("", "data.path = null", "valid string"),
    "a list with one that is not there": ("[sums.jsonl, none.jsonl]", "none.jsonl", "does not exist"),
}  # fmt: skip


@pytest.mark.parametrize(("file", "content", "thing", "fix"), FILES.values(), ids=FILES)
def test_bad_data_is_refused(refused, place, file, content, thing, fix):
    if not file.endswith("jsonl"):
        pytest.importorskip("datasets")
    (place / file).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    refused(["train", "settings.yaml", "--data.path", file], thing, fix)


@pytest.mark.parametrize(("path", "thing", "fix"), PLACES.values(), ids=PLACES)
def test_no_data_is_refused(refused, place, path, thing, fix):
    (place / "empty").mkdir()
    refused(["train", "settings.yaml", f"--data.path={path}"], thing, fix)
