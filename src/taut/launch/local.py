"""From a config to a run in this process."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from transformers import PreTrainedTokenizerBase

import taut
from taut.checks.finding import Finding
from taut.checks.preflight import batch_arithmetic, prompt_ends
from taut.checks.standing import LEVELS, StandingChecks
from taut.config import WORLD, Config, SFTConfig, check, to_yaml
from taut.launch.data import PromptSets, check_lengths, load_prompts, positions_of, tokenizer_for
from taut.launch.environments import make_host, with_environment
from taut.launch.interrupts import Interrupts
from taut.launch.models import check_critic, policy_and_critic, policy_from, tell_of_dtype
from taut.launch.quiet import quiet_libraries
from taut.launch.rewards import OnWait, Reward, describe, make_scorer
from taut.launch.sft import world_model_folder
from taut.launch.torch_setup import prepare_torch
from taut.launch.trackers import need_trackers, tracking
from taut.launch.watchdog import Watchdog
from taut.models.adapter import check_adapter
from taut.models.load import end_of_sequence_ids, shipped_sampling
from taut.models.policy import Policy
from taut.rollout.episodes import EpisodeSampler, Limits
from taut.rollout.local import LocalSampler
from taut.rollout.sampler import Sampler
from taut.rollout.source import PromptSource
from taut.store import RetentionPolicy, Run, RunWriter
from taut.store.behind import WriteBehind
from taut.store.runs import how_to_name, new_run_directory
from taut.store.writer import EventListener
from taut.tasks.environments.host import EnvironmentHost
from taut.tasks.environments.protocol import EnvironmentFactory
from taut.training.ahead import Ahead
from taut.training.checkpoint import CHECKPOINTS
from taut.training.keeper import Keeper
from taut.training.learner import LocalLearner
from taut.training.non_finite import NonFiniteError
from taut.training.ppo import Observer, Parts, kl_controller, train_ppo
from taut.training.shaping import RewardShaper


def wait_for_nothing(what: str, done: int, total: int) -> None: ...


def tell_nobody(event: Mapping[str, object]) -> None: ...


def train(
    config: Config,
    observers: Sequence[Observer] = (),
    on_wait: OnWait = wait_for_nothing,
    reward: Reward | None = None,
    on_event: EventListener = tell_nobody,
    environment: EnvironmentFactory | None = None,
) -> Run:
    """Trains as the config says and returns the finished run.

    `reward`, a function or {function: weight}, takes the place of `config.reward`; see docs/rewards.md for how it is
    called. `environment`, a class, takes the place of `config.environment.path`; what it pays is added to the `reward`
    given beside it. `on_event` hears of what the run stores as an event: warnings, and what the standing checks find.

    Everything cheap is checked before the weights load: contradictions, data, reward function, run name.
    Raises ValueError for a user's mistake, NonFiniteError before a step that would ruin the
    weights, and CheckFailedError under `checks.strict`.
    """
    config = with_environment(config, environment)
    check(config)
    if reward is not None:
        in_environment = config.environment.path is not None
        config = config.model_copy(update={"reward": describe(reward, in_environment)})
    directory = new_run_directory(config.run.root, config.run.name)
    prepared = prepare(config, on_wait, reward, environment)
    facts = machine_facts(prepared.device)
    with RunWriter.create(directory, to_yaml(config), facts, retention_of(config)) as store:
        store.listeners.append(on_event)
        prepared.tell(store)
        run_loop(prepared, store, observers, on_wait)
    return Run.open(directory)


@dataclass(frozen=True)
class Prepared:
    """A run that is ready for its first step."""

    config: Config
    tokenizer: PreTrainedTokenizerBase
    prompts: PromptSets
    policy: Policy
    parts: Parts
    device: str
    findings: dict[str, Finding]
    """What `taut check` finds before weights load, by its lines' names."""

    def tell(self, store: RunWriter) -> None:
        tell_of_dtype(store, self.config)
        tell_of_data(store, self.config, self.prompts, self.policy)
        for name, finding in self.findings.items():
            store.event("preflight", name, finding.message, LEVELS[finding.verdict])


def prepare(
    config: Config,
    on_wait: OnWait,
    reward: Reward | None = None,
    environment: EnvironmentFactory | None = None,
) -> Prepared:
    """Everything cheap is checked before the weights load. Raises ValueError for a user's mistake."""
    quiet_libraries()
    check_adapter(config.model, config.lora)
    check_critic(config)
    need_trackers(config.run)
    tokenizer = tokenizer_for(config.model)
    host = make_host(config, on_wait, environment)
    prompts = load_prompts(config, tokenizer, host)
    every_prompt = [*prompts.training, *prompts.held_out]
    check_lengths(every_prompt, config)
    device = prepare_torch(config.run)
    scorer = make_scorer(config, tokenizer, device, on_wait, reward)
    scorer.check(every_prompt)
    findings = {
        "batch": batch_arithmetic(config, max(len(prompt.ids) for prompt in every_prompt)),
        "prompts": prompt_ends(every_prompt, tokenizer),
    }

    policy, critic = policy_and_critic(load_policy(config, device, on_wait), config)
    source, ahead = PromptSource(prompts.training, config.run.seed), None
    if config.algorithm.max_staleness:
        apart = make_sampler(policy.twin(), tokenizer, config, host)
        ahead = Ahead(config, source, apart, scorer, policy.copied_weights)
    parts = Parts(
        source=source,
        held_out=prompts.held_out,
        sampler=make_sampler(policy, tokenizer, config, host),
        scorer=scorer,
        learner=LocalLearner(policy, critic, tokenizer, config),
        kl=kl_controller(config),
        shape_rewards=RewardShaper(config),
        ahead=ahead,
    )
    return Prepared(config, tokenizer, prompts, policy, parts, device, findings)


def run_loop(
    prepared: Prepared,
    store: RunWriter,
    observers: Sequence[Observer],
    on_wait: OnWait,
    first_step: int = 0,
) -> None:
    """The loop with what looks after it: trackers, interrupts, watchdog, checkpoints, standing checks."""
    config, parts = prepared.config, prepared.parts
    checkpoints = store.directory / CHECKPOINTS
    with tracking(config, store) as trackers:
        with (
            Interrupts() as interrupts,
            parts.ahead or nullcontext(),
            WriteBehind(store) as steps,
            Watchdog(on_wait, interrupts.stop_asked, first_step) as watchdog,
            Keeper(config, parts, checkpoints, interrupts.stop_asked, steps.wait) as keeper,
        ):
            parts.on_phase = watchdog.phase
            parts.warn = lambda step, message: store.event("evaluation", "failed", message, "warning", step)
            parts.inspector = StandingChecks(config, parts.learner, parts.sampler, store)
            try:
                # The keeper comes before the watchdog, for which a step that is being saved is not yet over.
                train_ppo(config, parts, steps, [*observers, *trackers, keeper, watchdog.observe], first_step)
            except NonFiniteError as error:
                steps.wait()
                raise NonFiniteError(f"{error}{how_to_replay(store.directory)}") from None
        store.finish("finished")  # before the trackers, which may wait for a network that is gone


def how_to_replay(directory: Path) -> str:
    """The command that finds what stopped a run at its newest step; "" where it has none."""
    name = shlex.quote(how_to_name(directory))
    return "".join(
        f"\ntaut replay {name} --step {step} --bisect takes it once more, and finds the replies that bring it about"
        for step in Run.open(directory).kept_steps()[-1:]
    )


def retention_of(config: Config) -> RetentionPolicy:
    kept = config.store
    return RetentionPolicy(newest=kept.keep_newest, max_bytes=int(kept.max_gb * 1e9))


def load_policy(config: Config, device: str, on_wait: OnWait = wait_for_nothing) -> Policy:
    path = config.model.path
    if path == WORLD:
        path = str(_world_model(config.run.seed, on_wait))
    return policy_from(path, config.model).to(device)


def _world_model(seed: int, on_wait: OnWait) -> Path:
    what, total = f"fine-tuning the world's model, once for seed {seed}", SFTConfig().run.steps
    return world_model_folder(seed, lambda step, loss: on_wait(what, step, total))


def make_sampler(
    policy: Policy,
    tokenizer: PreTrainedTokenizerBase,
    config: Config,
    environment: EnvironmentHost | None = None,
) -> Sampler:
    end_ids = end_of_sequence_ids(policy.model, tokenizer)
    sampler = LocalSampler(policy, tokenizer, end_ids, config.sampling.max_sequences)
    if environment is None:
        return sampler
    limits = Limits(config.environment.max_turns, positions_of(config.model))
    return EpisodeSampler(sampler, environment, tokenizer, end_ids, limits)


def tell_of_data(store: RunWriter, config: Config, prompts: PromptSets, policy: Policy) -> None:
    """Events for what the run does with model and data that its user may not expect."""
    if prompts.skipped:
        limit = f"data.max_prompt_tokens = {config.data.max_prompt_tokens}"
        message = f"{prompts.skipped} rows were skipped: longer than {limit}"
        store.event("data", "long_prompts", message, "warning", data={"skipped": prompts.skipped})
    if shipped := shipped_sampling(policy.model):
        settings = ", ".join(f"{name} {value}" for name, value in shipped.items())
        message = f"sampling settings the model ships with are not taken: {settings}"
        store.event("data", "generation_config", message, data=shipped)


def machine_facts(device: str) -> dict[str, object]:
    """What else must be the same for a run to repeat bit for bit."""
    return {
        "taut": taut.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": device,
    }
