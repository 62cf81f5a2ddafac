"""`taut check`: a run's parts looked at one by one, and a little step at learning rate 0, before anything expensive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from transformers import PreTrainedTokenizerBase

from taut.checks import preflight
from taut.checks.finding import Finding, Verdict, judge
from taut.config import Config, check
from taut.launch.data import PromptSets, check_lengths, load_prompts, tokenizer_for
from taut.launch.environments import make_host
from taut.launch.little_step import little_config, make_parts, take_little_step
from taut.launch.local import load_policy, wait_for_nothing
from taut.launch.models import check_critic, policy_and_critic
from taut.launch.plan import memory_finding
from taut.launch.quiet import quiet_libraries
from taut.launch.rewards import OnWait, make_scorer
from taut.launch.torch_setup import prepare_torch
from taut.models.adapter import check_adapter
from taut.models.critic import Critic
from taut.models.policy import Policy
from taut.store import StepRecord
from taut.tasks.environments.host import EnvironmentHost
from taut.tasks.scorer import Scorer, first_failure
from taut.types import Score


@dataclass(frozen=True)
class Line:
    """One line of the report."""

    name: str
    verdict: Verdict | Literal["skip"]
    """`skip`: it could not be looked at, because of a line before it."""
    message: str
    shown: Sequence[str] = ()
    """What to look at oneself."""


Look = Callable[["Ground"], Iterator[Line]]


@dataclass
class Ground:
    """What the lines before have made for those behind; None where they could not."""

    config: Config
    on_wait: OnWait
    settings: Config | None = None
    tokenizer: PreTrainedTokenizerBase | None = None
    host: EnvironmentHost | None = None
    """Of the environment, where there is one; it makes the prompts."""
    prompts: PromptSets | None = None
    longest: int | None = None
    """Tokens of the longest prompt."""
    device: str | None = None
    scorer: Scorer | None = None
    hostile: Mapping[str, Score] | None = None
    models: tuple[Policy, Critic | None] | None = None
    record: StepRecord | None = None
    """The little step."""


def preflight_of(
    config: Config,
    on_line: Callable[[Line], None] = lambda line: None,
    on_wait: OnWait = wait_for_nothing,
) -> list[Line]:
    """Every line of the report; `on_line` hears of each as it is made. What is wrong with the run is a line."""
    quiet_libraries()
    ground, lines = Ground(config, on_wait), []
    for name, needs, look in LINES:
        for line in _lines(ground, name, needs, look):
            lines.append(line)
            on_line(line)
    return lines


def _lines(ground: Ground, name: str, needs: Sequence[str], look: Look) -> Iterator[Line]:
    if missing := [need for need in needs if getattr(ground, need) is None]:
        above = dict.fromkeys(MADE_BY[need] for need in missing)
        yield Line(name, "skip", f"not looked at, because of {' and '.join(above)} above")
        return
    try:
        yield from look(ground)
    except (ValueError, ImportError, ArithmeticError, OSError, RuntimeError) as error:
        yield Line(name, "fail", str(error).strip() or type(error).__name__)


def _line(name: str, finding: Finding, shown: Sequence[str] = ()) -> Line:
    return Line(name, finding.verdict, finding.message, shown)


def _settings(ground: Ground) -> Iterator[Line]:
    check(ground.config)
    check_adapter(ground.config.model, ground.config.lora)
    check_critic(ground.config)
    ground.settings = ground.config
    yield Line("settings", "pass", "they do not contradict each other")


def _tokenizer(ground: Ground) -> Iterator[Line]:
    ground.device = prepare_torch(ground.config.run)
    ground.tokenizer = tokenizer_for(ground.config.model)
    yield Line("tokenizer", "pass", f"{len(ground.tokenizer)} tokens of {ground.config.model.path}")


def _data(ground: Ground) -> Iterator[Line]:
    assert ground.tokenizer is not None
    ground.host = make_host(ground.config, ground.on_wait)
    prompts = load_prompts(ground.config, ground.tokenizer, ground.host)
    every = [*prompts.training, *prompts.held_out]
    ground.prompts, ground.longest = prompts, max(len(prompt.ids) for prompt in every)
    check_lengths(every, ground.config)
    passes = ground.config.run.steps * ground.config.algorithm.prompts_per_step / len(prompts.training)
    text = (
        f"{len(prompts.training)} prompts, {len(prompts.held_out)} held out, the longest of {ground.longest} tokens, "
        f"{prompts.skipped} left out; a run goes through them {passes:.3g} times"
    )
    advice = (
        "without held-out prompts nothing tells learning from memorising: set data.held_out or data.eval_path"
    )
    yield _line("data", judge(bool(prompts.held_out), text, advice, otherwise="warn"))


def _batch(ground: Ground) -> Iterator[Line]:
    assert ground.longest is not None
    yield _line("batch", preflight.batch_arithmetic(ground.config, ground.longest))


def _prompts(ground: Ground) -> Iterator[Line]:
    assert ground.prompts is not None
    assert ground.tokenizer is not None
    training = ground.prompts.training
    shown = [preflight.show_prompt(prompt, ground.tokenizer) for prompt in training[:2]]
    yield _line("prompts", preflight.prompt_ends(training, ground.tokenizer), shown)


def _reward(ground: Ground) -> Iterator[Line]:
    assert ground.tokenizer is not None
    assert ground.device is not None
    scorer = make_scorer(ground.config, ground.tokenizer, ground.device, ground.on_wait)
    if ground.prompts is None:
        scorer.check([])
        yield Line(
            "reward", "skip", "it loads; the columns it asks for are not looked at, because of data above"
        )
        return
    scorer.check([*ground.prompts.training, *ground.prompts.held_out])
    ground.scorer = scorer
    yield Line("reward", "pass", f"{ground.config.reward} takes the data's columns")


def _hostile(ground: Ground) -> Iterator[Line]:
    assert ground.scorer is not None
    assert ground.prompts is not None
    length, prompt = ground.config.sampling.max_new_tokens, ground.prompts.training[0]
    replies = preflight.hostile_replies(prompt, length)
    if host := ground.host:
        turns = ground.config.environment.max_turns
        replies = {name: preflight.acted_out(reply, host, turns) for name, reply in replies.items()}
    scores = ground.scorer.score(list(replies.values()), 0)
    ground.hostile = dict(zip(replies, scores, strict=True))
    yield _line("hostile replies", preflight.hostile_scores(ground.hostile))


def _memory(ground: Ground) -> Iterator[Line]:
    assert ground.longest is not None
    assert ground.device is not None
    yield _line("memory", memory_finding(ground.config, ground.longest, ground.device))


def _models(ground: Ground) -> Iterator[Line]:
    assert ground.device is not None
    policy = load_policy(ground.config, ground.device, ground.on_wait)
    ground.models = policy_and_critic(policy, ground.config)
    count = sum(weight.numel() for weight in policy.parameters())
    trained = sum(weight.numel() for weight in ground.models[0].trained_parameters())
    yield Line(
        "models", "pass", f"{count:,} parameters on {ground.device}, {trained:,} of the policy's are trained"
    )


def _little_step(ground: Ground) -> Iterator[Line]:
    assert ground.prompts is not None
    assert ground.scorer is not None
    assert ground.tokenizer is not None
    assert ground.models is not None
    policy, critic = ground.models
    little = little_config(ground.config)
    parts = make_parts(
        little, policy, critic, ground.tokenizer, ground.prompts.training, ground.scorer, ground.host
    )
    ground.record, findings = take_little_step(little, parts)
    replies = ground.record.replies
    shown = [
        f"{reply.text!r}, {len(reply.ids)} tokens, {reply.finish_reason}, reward {reply.reward:.3g}"
        for reply in replies
    ]
    rewards = [reply.reward for reply in replies]
    failure = first_failure(reply.failures for reply in replies)
    yield _line("sampled rewards", preflight.sampled_rewards(rewards, ground.hostile, failure), shown)
    yield _line("ratio", preflight.unchanged_ratio(ground.record.scalars, little))
    if little.sampling.max_new_tokens < ground.config.sampling.max_new_tokens:
        findings.pop("truncation", None)  # of replies that only the little step cut
    yield from (_line(name, finding) for name, finding in findings.items())


def _time(ground: Ground) -> Iterator[Line]:
    assert ground.record is not None
    little = little_config(ground.config)
    yield _line("time", preflight.step_seconds(ground.record.scalars, ground.config, little))


LINES: tuple[tuple[str, Sequence[str], Look], ...] = (
    ("settings", (), _settings),
    ("tokenizer", (), _tokenizer),
    ("data", ("tokenizer",), _data),
    ("batch", ("settings", "longest"), _batch),
    ("prompts", ("tokenizer", "prompts"), _prompts),
    ("reward", ("tokenizer", "device"), _reward),
    ("hostile replies", ("scorer", "prompts"), _hostile),
    ("memory", ("settings", "longest", "device"), _memory),
    ("models", ("settings", "device"), _models),
    ("little step", ("models", "scorer", "prompts"), _little_step),
    ("time", ("record",), _time),
)
"""Each line's name, what it needs of those before it, and how it looks. A look may make several lines."""

MADE_BY = {
    "settings": "settings",
    "tokenizer": "tokenizer",
    "device": "tokenizer",
    "prompts": "data",
    "longest": "data",
    "scorer": "reward",
    "models": "models",
    "record": "little step",
}
"""The line that makes what others need."""
