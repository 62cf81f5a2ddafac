"""What is looked at before a run, once each part of it is at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from transformers import PreTrainedTokenizerBase

from taut.checks.finding import Finding, judge
from taut.checks.memory import MemoryPlan, size
from taut.config import Config
from taut.models.tokens import as_messages
from taut.tasks.environments.host import EnvironmentHost, Failure, Turn
from taut.tasks.scorer import first_failure
from taut.types import Episode, Message, Prompt, Rollout, Score

SHOWN = 40
"""Characters of a text, or tokens of a prompt, that are shown of each end."""
RATIO_BOUND = 1e-5
COARSE_RATIO_BOUND = 0.05
"""With passes in bfloat16, whose numbers have three digits."""
FULL = 0.9
"""Share of the free memory above which a plan is worth a warning."""


def batch_arithmetic(config: Config, longest_prompt: int) -> Finding:
    """Prompts, replies, micro-batches, optimiser steps, tokens. That they divide, `config.check` has seen."""
    algorithm, width = config.algorithm, longest_prompt + config.longest_reply
    replies = algorithm.prompts_per_step * algorithm.replies_per_prompt
    minibatch = replies // algorithm.minibatches
    rows = min(minibatch, max(1, config.learner.micro_batch_tokens // width))
    updates = algorithm.epochs * algorithm.minibatches
    text = "; ".join(
        [
            f"a step is {algorithm.prompts_per_step} prompts × {algorithm.replies_per_prompt} replies = {replies}, "
            f"at most {replies * config.longest_reply:,} new tokens",
            f"{algorithm.epochs} epochs × {algorithm.minibatches} minibatches = {updates} optimiser steps of "
            f"{minibatch} replies, {updates * config.run.steps:,} in {config.run.steps} steps",
            f"micro-batches of {rows} replies at their longest ({width} tokens), {-(-minibatch // rows)} to a "
            "minibatch",
        ]
    )
    return judge(
        width <= config.learner.micro_batch_tokens,
        text,
        f"one sequence is longer than learner.micro_batch_tokens = {config.learner.micro_batch_tokens} and goes alone: "
        f"set it to {width} or more",
        otherwise="warn",
    )


def show_prompt(prompt: Prompt, tokenizer: PreTrainedTokenizerBase) -> str:
    """The prompt as the model sees it: each id with its text, the middle left out, and where the reply starts."""
    pieces = [f"{id}:{tokenizer.decode([id])!r}" for id in prompt.ids]
    half = SHOWN // 2
    if len(pieces) > SHOWN:
        pieces = [*pieces[:half], f"… {len(pieces) - 2 * half} more …", *pieces[-half:]]
    return f"row {prompt.index + 1}, {len(prompt.ids)} tokens: {' '.join(pieces)} | the reply starts here"


def prompt_ends(prompts: Sequence[Prompt], tokenizer: PreTrainedTokenizerBase) -> Finding:
    """Exactly one BOS where the tokenizer has one, and no end mark before the reply."""
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    twice = [prompt for prompt in prompts if bos is not None and prompt.ids[:2] == (bos, bos)]
    if twice:
        return Finding("fail", f"row {twice[0].index + 1} begins with two BOS: leave it out of the text")
    ended = [prompt for prompt in prompts if eos is not None and prompt.ids[-1] == eos]
    if ended and eos != bos:
        return Finding(
            "warn",
            f"row {ended[0].index + 1} ends with the end-of-sequence token, and the reply would start behind it: "
            "leave it out of the text, or of the chat template",
        )
    with_bos = sum(bos is not None and prompt.ids[0] == bos for prompt in prompts)
    start = (
        "the tokenizer has no BOS" if bos is None else f"{with_bos} of {len(prompts)} begin with BOS {bos}"
    )
    conversations = sum(prompt.messages is not None for prompt in prompts)
    text = f"{start}; {conversations} are conversations"
    if tokenizer.chat_template and not conversations:
        return Finding(
            "warn", f"{text}, though the model has a chat template: set data.as_chat to true to use it"
        )
    return Finding("pass", text)


def hostile_replies(prompt: Prompt, max_new_tokens: int) -> dict[str, Rollout]:
    """Replies that a policy will write sooner or later, by what is hostile about them."""
    texts = {
        "empty": "",
        "blank": " \n\t ",
        "huge": "9 " * 2 * max_new_tokens,
        "unicode": "\U0001f9ee e\u0301 \u202e\u05d0 \ufffd \x00 \u0661\u0662",
        "numbers out of range": "1e999 -inf nan 9" + "9" * 400,
        "markup open": "<think>{[(\\boxed{ $ ``` \"'",
    }
    ids = (prompt.ids * max_new_tokens)[
        :max_new_tokens
    ]  # some ids of the vocabulary; texts are what functions read
    return {
        name: Rollout(
            prompt=prompt,
            sample=number,
            ids=ids if name == "huge" else ids[:1],
            text=text,
            behavior_logprobs=np.zeros(max_new_tokens if name == "huge" else 1, np.float32),
            finish_reason="length" if name == "huge" else "stop",
        )
        for number, (name, text) in enumerate(texts.items())
    }


def acted_out(reply: Rollout, host: EnvironmentHost, turns: int) -> Rollout:
    """With the episode that the environment makes of it, told the same text turn after turn until it has enough."""
    assert reply.prompt.row is not None, "an environment makes the prompts"
    [number], [opening] = host.reset([reply.prompt.row])
    answer = opening if isinstance(opening, Failure) else Turn(opening, 0.0)
    paid, taken, messages = 0.0, 0, list[Message]()
    while isinstance(answer, Turn) and answer.messages is not None:
        if taken == turns:
            [answer] = host.cut({number: None})
        else:
            messages += as_messages(answer.messages or ()) if taken else []
            messages.append({"role": "assistant", "content": reply.text})
            taken += 1
            [answer] = (host.cut if reply.truncated else host.step)({number: reply.text})
        paid += answer.reward if isinstance(answer, Turn) else 0.0
    host.end([number])
    failure = answer.why if isinstance(answer, Failure) else None
    told = None if reply.prompt.messages is None else tuple(messages)
    return replace(reply, episode=Episode(max(1, taken), paid, told, failure))


def hostile_scores(scores: Mapping[str, Score]) -> Finding:
    """A function may give them any number, and may fail on them, but it should be known."""
    shown = ", ".join(f"{name} {score.reward:.3g}" for name, score in scores.items())
    failed = {name: score.failures for name, score in scores.items() if score.failures}
    if not failed:
        return Finding("pass", shown)
    name = next(iter(failed))
    return Finding(
        "warn",
        f"{shown}; on the reply that is {name} {first_failure(failed.values())} ({len(failed)} of {len(scores)} "
        "failed): such replies are left out of training, so return a number for them",
    )


def sampled_rewards(
    rewards: Sequence[float], hostile: Mapping[str, Score] | None, failure: str | None = None
) -> Finding:
    """Rewards that every reply has, that differ, and that an empty reply does not beat; `failure` is the first."""
    known = [reward for reward in rewards if reward == reward]
    if not known:
        return Finding(
            "fail", f"none of {len(rewards)} sampled replies has a reward: see that the function returns one"
        )
    text = (
        f"{len(known)} of {len(rewards)} sampled replies have one, from {min(known):.3g} to {max(known):.3g}"
    )
    if len(known) < len(rewards):
        missing = f"{len(rewards) - len(known)} have none: {failure or 'the reward gave them none'}"
        return Finding("warn", f"{text}; {missing}: such replies are left out of training")
    empty = hostile["empty"].reward if hostile else -np.inf
    if empty > max(known):
        return Finding(
            "warn", f"{text}; an empty reply has {empty:.3g}, more than any of them: it will be learned"
        )
    advice = "these teach nothing; try more prompts, easier ones, or a reward with steps between"
    return judge(max(known) > min(known), text, advice, otherwise="warn")


def unchanged_ratio(scalars: Mapping[str, float], config: Config) -> Finding:
    """At learning rate 0 the second epoch's ratio is 1, as the first's is by construction."""
    bound = RATIO_BOUND if config.model.dtype == "float32" else COARSE_RATIO_BOUND
    gap = max(scalars["ratio/max"] - 1, 1 - scalars["ratio/min"])
    return judge(
        gap <= bound,
        f"in two epochs at learning rate 0 every ratio is 1 within {gap:.1e}",
        f"above {bound:g} the policy's passes differ though its weights do not: look for dropout, or a pass that "
        "depends on what it is batched with",
    )


def memory_fits(plan: MemoryPlan, free: int | None) -> Finding:
    """`free` in bytes; None where it is not known."""
    most = plan.dominant
    text = f"{size(plan.peak)} at most beside the libraries' own, {size(most.bytes)} of it {most.name}"
    if free is None:
        return Finding("pass", text)
    text += f"; {size(free)} are free"
    advice = f"see taut plan, and save on {most.name}"
    return judge(plan.peak <= FULL * free, text, advice, "fail" if plan.peak > free else "warn")


def step_seconds(scalars: Mapping[str, float], config: Config, little: Config) -> Finding:
    """A whole step's, from those of a little one: as many times more tokens and, of updates, epochs."""
    tokens = _tokens(config) / _tokens(little)
    epochs = config.algorithm.epochs / little.algorithm.epochs
    scale = {"sample": tokens, "reward": tokens, "score": tokens, "update": tokens * epochs}
    seconds = {phase: scalars[f"time/{phase}"] * factor for phase, factor in scale.items()}
    longest, total = max(seconds, key=lambda phase: seconds[phase]), sum(seconds.values())
    minutes = total * config.run.steps / 60
    return Finding(
        "pass",
        f"at most about {total:.3g} s a step, {seconds[longest]:.3g} of them {longest}, and {minutes:.3g} minutes in "
        f"{config.run.steps} steps: from a step of {_replies(little)} replies, as if more took as much longer",
    )


def _replies(config: Config) -> int:
    return config.algorithm.prompts_per_step * config.algorithm.replies_per_prompt


def _tokens(config: Config) -> int:
    return _replies(config) * config.sampling.max_new_tokens
