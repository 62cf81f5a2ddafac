"""Starting runs from the page: what is refused, what a run is named, and the command that it becomes."""

import sys

import pytest

from taut.checks.faults import FAULTS
from taut.checks.standing import CHECKS
from taut.config import resolve, to_yaml
from taut.store import RunWriter, StepRecord
from taut.web.breakages import BREAKAGES
from taut.web.training import make_job
from taut.web.workshop import others_of


@pytest.fixture
def started(monkeypatch, client):
    """The jobs that would have been started."""
    jobs = []
    monkeypatch.setattr(client.app.state.jobs, "add", jobs.extend)
    return jobs


@pytest.fixture
def world_run(root):
    """A run of the world, 8 epochs and a fault, whose check fired."""
    config = to_yaml(resolve({"algorithm.epochs": 8})[0])
    step = StepRecord(1, {}, {"reward/mean": 0.5, "clip/binding": 0.2, "entropy": 0.3}, [])
    with RunWriter.create(root / "ours", config, facts={"fault": "no clip"}) as writer:
        writer.append(step)
        writer.event("check", "mask", "all is well", step=1)
        writer.event("check", "clip", "it leaks", level="error", step=1)
    return root / "ours"


def post(client, *runs):
    return client.post("/api/training", json={"runs": list(runs)})


def test_a_run_becomes_a_command(client, started, root):
    answer = post(
        client, {"settings": {"algorithm.epochs": 8, "run.seed": 3, "optimizer.max_grad_norm": None}}
    )
    assert answer.json() == {"runs": ["epochs=8_seed=3"]}
    [job] = started
    assert job.command == [
        *(sys.executable, "-u", "-m", "taut.cli", "train"),
        *("--algorithm.epochs=8", "--run.seed=3", "--optimizer.max_grad_norm=null"),
        *(f'--run.root="{root.absolute()}"', '--run.name="epochs=8_seed=3"'),
    ]
    assert job.alone == 3


@pytest.mark.parametrize("advantage", ["batch-mean", "group-standardized", "leave-one-out", "gae"])
@pytest.mark.parametrize(
    "kl", [{}, {"kl.placement": "reward"}, {"kl.placement": "loss", "kl.estimator": "k3"}]
)
def test_every_choice_of_the_page_can_be_run(client, started, advantage, kl):
    answer = post(client, {"settings": {"algorithm.advantage": advantage, "algorithm.minibatches": 8, **kl}})
    assert answer.status_code == 200
    assert len(started) == 1


def test_a_broken_run_says_so_in_name_command_and_facts(client, started):
    post(client, {"settings": {"run.steps": 2}, "fault": "dropout on"})
    [job] = started
    assert job.name == "broken-dropout-on_steps=2_seed=0"
    assert job.command[3:5] == ["taut.web.broken", "dropout on"]
    assert job.facts["fault"] == "dropout on"


def test_names_are_the_settings_and_unique(client, started, root):
    (root / "world_seed=0").mkdir()
    twice = {"settings": {"algorithm.clip_low": 0.5, "algorithm.clip_high": 0.5}}
    names = post(client, {}, twice, twice, {"settings": {"algorithm.clip_high": 0.3}}).json()["runs"]
    assert names == ["world_seed=0_2", "clip=0.5_seed=0", "clip=0.5_seed=0_2", "clip_high=0.3_seed=0"]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"settings": {"algorithm.epoch": 1}}, "did you mean algorithm.epochs?"),
        ({"settings": {"algorithm.epochs": 0}}, "algorithm.epochs = 0"),
        ({"settings": {"algorithm.minibatches": 7}}, "does not divide the batch of 64 replies"),
        ({"settings": {"reward": "evil.py:f"}}, "reward cannot be set here"),
        ({"settings": {"model.path": "/etc"}}, "model.path cannot be set here"),
        ({"settings": {"run.root": "/"}}, "run.root cannot be set here"),
        ({"settings": {"critic.path": "/etc", "algorithm.preset": "ppo"}}, "critic.path cannot be set here"),
        ({"settings": {"algorithm": {"epochs": 2}}, "fault": "gremlins"}, "there is no fault 'gremlins'"),
        ({"settings": {"algorithm": {"epochs": 2}}}, "algorithm: name each setting by itself"),
        ({"settings": {"critic.path": {"x": {}}}}, "critic.path: name each setting by itself"),
        ({"settings": {"run.seed": {}}}, "run.seed: name each setting by itself"),
        ({"fault": []}, "there is no fault []"),
        ({"fault": {}}, "there is no fault {}"),
        ({"settings": []}, 'each of "runs" is'),
    ],
)
def test_what_cannot_be_is_told_in_the_configs_words_and_nothing_starts(client, started, run, words):
    answer = post(client, {}, run)
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert started == []


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"runs": []}', b'{"runs": 3}', b'{"runs": [3]}', b"\xff", b"[" * 100_000]
)
def test_a_body_that_is_none_is_refused(client, body):
    assert client.post("/api/training", content=body).status_code == 400


def test_stop_answers_in_words(client):
    answer = client.post("/api/training/first/stop")
    assert answer.status_code == 400
    assert "was not started from this page" in answer.json()["error"]


def test_the_workshop_tells_of_the_worlds_runs_alone(client, root, world_run):
    """`first` is of a made-up config that names no model."""
    told = client.get("/api/workshop").json()
    assert [run["run"] for run in told["runs"]] == ["ours"]
    [run] = told["runs"]
    assert run["settings"]["algorithm.epochs"] == 8
    assert run["fault"] == "no clip"
    assert run["fired"] == [{"name": "clip", "level": "error", "step": 1, "message": "it leaks"}]
    assert run["gauge"] == "the batch is over-used: take fewer epochs"
    assert told["defaults"]["algorithm.epochs"] == 4
    assert told["jobs"] == []
    assert {fault["name"]: fault["check"] for fault in told["faults"]}["no clip"] == "clip"
    assert client.get("/api/workshop").json()["runs"] == told["runs"], "the second answer is of what was kept"


@pytest.mark.parametrize(
    ("settings", "others"),
    [
        ({}, {}),
        ({"run.seed": 3, "run.name": "x", "run.root": "/y", "store.keep_newest": 1}, {}),
        ({"algorithm.advantage": "gae", "kl.placement": "loss", "kl.estimator": "k3"}, {}),
        ({"sampling.temperature": 0.7}, {"sampling.temperature": 0.7}),
        ({"algorithm.surrogate": "cispo"}, {"algorithm.surrogate": "cispo"}),
        ({"algorithm.replies_per_prompt": 4}, {"algorithm.replies_per_prompt": 4}),
        (
            {"algorithm.prompts_per_step": 10, "algorithm.minibatches": 5},
            {"algorithm.prompts_per_step": 10},
        ),
        (
            {"algorithm.preset": "ppo"},
            {"algorithm.preset": "ppo", "algorithm.whiten_advantages": True},
        ),
        (
            {"algorithm.preset": "grpo"},
            {"algorithm.preset": "grpo", "algorithm.loss_normalization": "sequence"},
        ),
    ],
)
def test_the_settings_that_the_page_has_no_choice_for_are_told(settings, others):
    assert others_of(resolve(settings)[0].model_dump()) == others


def test_every_switch_is_a_fault_that_a_check_sees():
    assert BREAKAGES.keys() <= FAULTS.keys()
    assert {breakage.check for breakage in BREAKAGES.values()} <= CHECKS.keys()


@pytest.mark.parametrize("fault", BREAKAGES)
def test_a_switchs_settings_can_be_run(root, fault):
    assert make_job(root, dict(BREAKAGES[fault].settings), fault, set()).facts["fault"] == fault


def test_published_figures_are_those_of_the_world_page(client):
    told = client.get("/api/workshop").json()["published"]
    assert [(row["epochs"], row["clip"], row["share"]) for row in told] == [
        *((1, 0.2, 0.0), (4, 0.2, 0.071), (8, 0.2, 0.149), (4, 0.5, 0.049))
    ]
    assert (told[1]["reward"], told[1]["accuracy"]) == (0.89, 0.7)


def test_a_queue_of_too_many_is_refused(client):
    assert "100" in post(client, *[{}] * 101).json()["error"]


def test_a_body_that_is_too_long_is_not_read_to_its_end(client):
    assert client.post("/api/training", content=b" " * 1_000_001).status_code == 413
