from __future__ import annotations

import os

import pytest
import torch

from taut.config import RunConfig
from taut.launch import torch_setup
from taut.launch.torch_setup import prepare_torch, usable_cores


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), ("1600000 100000", 8)],
)
def test_a_container_s_quota_bounds_the_cores(tmp_path, monkeypatch, quota, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    (tmp_path / "cpu.max").write_text(quota + "\n")
    assert usable_cores(tmp_path / "cpu.max") == cores
    assert usable_cores(tmp_path / "absent") == 8


def test_threads_are_those_that_the_run_names_or_no_more_than_it_may_use(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr(torch_setup, "usable_cores", lambda: 1)
    try:
        prepare_torch(RunConfig(threads=2, device="cpu"))
        assert torch.get_num_threads() == 2
        prepare_torch(RunConfig(device="cpu"))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
