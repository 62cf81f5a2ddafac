"""Every setting of a run of `taut train`: its name, its meaning, its unit, its default.

Defaults are those for a pretrained model; `presets.py` holds the algorithm presets and what the built-in world
sets instead. Help pages and forms are made from the descriptions here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from taut.config.presets import WORLD, fill_in_run
from taut.config.values import Count, NonNegative, Positive, PositiveInt, Section, Share, Text, Trackers

AdvantageName = Literal[
    "gae", "batch-mean", "group-mean", "group-standardized", "leave-one-out", "global-normalized", "reward"
]
PresetName = Literal[
    "ppo", "ppo-batch-mean", "grpo", "rloo", "dr-grpo", "dapo", "gspo", "cispo", "sapo", "dppo", "reinforce++"
]
Betas = Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=2, max_length=2)]
KLEstimatorName = Literal["k1", "k2", "k3", "k3-straight-through", "k3-weighted"]


class RunConfig(Section):
    name: Text | None = None
    """Directory name under `run.root`; made from date and time when not given."""
    root: Text = "runs"
    """Directory that holds the run directories."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of the data order, the sampling noise and, in the built-in world, the model."""
    steps: PositiveInt = 100
    """Steps of the loop: batches sampled and trained on."""
    threads: PositiveInt | None = None
    """CPU threads torch uses; when not given, torch's choice within the container's quota (1 in the world)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the models live; `auto` takes CUDA where there is one."""
    trackers: Trackers = Field(default=[])
    """Where metrics also go as they come, a list or a text with commas; see docs/trackers.md."""


class ModelConfig(Section):
    path: Text = WORLD
    """Folder or hub id of a transformers causal language model, or `careless-adder`, the built-in world's."""
    gguf_file: Text | None = None
    """File inside `model.path` when the weights are GGUF."""
    dtype: Literal["float32", "bfloat16", "bfloat16-weights", "nf4"] = "float32"
    """Compute type, weights staying float32; `bfloat16-weights` stores them so, `nf4` in 4 bits for LoRA (QLoRA)."""
    attention: Literal["eager", "sdpa", "flash_attention_2", "flex_attention"] | None = None
    """Attention implementation of transformers; when not given, its choice."""
    gradient_checkpointing: bool = False
    """Compute layers again in the backward pass: less memory, a third more time."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model, and load pickled weights where it has no others."""


class LoraConfig(Section):
    rank: Count = 0
    """Rank of the LoRA adapters, which are trained instead of the model's weights; 0 is off."""
    alpha: PositiveInt = 32
    """The adapters' outputs are scaled by alpha / rank."""
    target_modules: Text = "all-linear"
    """Which matrices get an adapter: `all-linear` or a regular expression of their full names."""


class DataConfig(Section):
    path: Text | Annotated[list[Text], Field(min_length=1)] = WORLD
    """File, folder, hub id, `reasoning-gym:task` or a list of them; or `careless-adder`, the world's sums."""
    weights: list[Positive] | None = None
    """One for each of several paths: their parts in what is trained on; when not given, every row counts alike."""
    eval_path: Text | Annotated[list[Text], Field(min_length=1)] | None = None
    """Held-out prompts, named as in `data.path`; the world brings its own where none are set."""
    held_out: Annotated[float, Field(gt=0, lt=1)] | PositiveInt | None = None
    """Share or number of the rows to hold out instead, drawn with the run's seed."""
    prompt_column: Text = "prompt"
    """Column that holds the prompt: a text, or a list of messages for the model's chat template."""
    as_chat: bool = False
    """Make a prompt that is a text the user's message of a conversation."""
    completion_column: Text = "completion"
    """Column that holds the reply to learn from in `taut sft`."""
    limit: PositiveInt | None = None
    """Read the first so many rows of each path only; when not given, all (in the world, its 80 RL prompts)."""
    max_prompt_tokens: PositiveInt = 1024
    """Longest prompt that is taken, in tokens; none is ever cut."""
    long_prompts: Literal["error", "skip"] = "error"
    """What a longer one is: an error, or left out and counted."""


class EnvironmentConfig(Section):
    path: Text | None = None
    """What replies act in, turn by turn: `file.py:Class` or `module:Class`; see docs/environments.md."""
    max_turns: PositiveInt = 8
    """Most turns of a reply, each of at most `sampling.max_new_tokens`."""


class ScoringConfig(Section):
    timeout: Positive = 60.0
    """Seconds a call of a reward function, or a turn in an environment, may take."""
    workers: PositiveInt = 1
    """Processes a reward function or an environment runs in; each takes its part of a batch."""
    isolate: bool = True
    """Call a function that failed on a batch again reply by reply; off where it compares replies."""
    on_failure: Literal["exclude", "retry", "stop"] = "exclude"
    """A reply that a function failed on: leave it out, try once more (an environment: never), or end the run."""
    normalize: bool = False
    """Subtract the mean of all rewards of the run so far, and divide by their standard deviation."""
    clip: Positive | None = None
    """Bound on a reward's size, after `normalize`; null is off."""
    missing_eos_penalty: NonNegative = 0.0
    """Subtracted from the reward of a reply that was cut."""


class SamplingConfig(Section):
    max_new_tokens: PositiveInt = 256
    """Longest reply, in tokens; in an environment, longest turn."""
    temperature: Positive = 1.0
    """Softmax temperature, the same on every side of the ratio."""
    top_k: Count = 0
    """Sample among the k likeliest tokens only; 0 is off."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Sample among the likeliest tokens that hold this probability mass; 1 is off."""
    min_p: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Sample only tokens at least this share as likely as the likeliest; 0 is off."""
    max_sequences: PositiveInt = 256
    """Replies decoded at once; those to one prompt always go together."""


class AlgorithmConfig(Section):
    preset: PresetName = "ppo"
    """Named set of values for the keys below; keys given beside it win."""
    prompts_per_step: PositiveInt = 8
    """Distinct prompts in a batch."""
    replies_per_prompt: PositiveInt = 8
    """Replies sampled for each prompt (the group size G)."""
    epochs: PositiveInt = 4
    """Passes over each batch."""
    minibatches: PositiveInt = 1
    """Optimiser steps an epoch; the batch is cut into so many equal parts."""
    advantage: AdvantageName = "gae"
    """How rewards become advantages; `gae` holds a critic, `reward` uses no baseline."""
    whiten_advantages: bool = False
    """Scale the advantages of a batch to mean 0 and standard deviation 1, over its trained tokens."""
    whiten_rewards: bool = False
    """Scale the token rewards of a batch to standard deviation 1, and keep their mean."""
    surrogate: Literal["clipped", "cispo", "sapo", "dppo"] = "clipped"
    """`clipped` is PPO's; `cispo` caps the weight; `sapo` fades and holds nothing; `dppo` holds by π - π_old."""
    ratio_level: Literal["token", "sequence"] = "token"
    """One ratio a token, or one a reply: the geometric mean of its tokens' (GSPO)."""
    clip_low: Share | None = 0.2
    """ε below 1 (`dppo`: how far π may fall); null leaves that side open."""
    clip_high: NonNegative | None = 0.2
    """ε above 1 (`dppo`: how far π may rise); null leaves that side open."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Bound c > 1 on the ratio of tokens with a negative advantage; null is off."""
    loss_normalization: Literal["token", "sequence", "constant"] = "token"
    """Mean over tokens, mean over replies of token means, or sum over a constant, the longest reply possible."""
    entropy_coefficient: NonNegative = 0.0
    """Weight of the entropy bonus."""
    target_kl: Positive | None = None
    """Stop a batch's updates once its KL from the old policy (k3, nats a token) exceeds this."""
    gamma: Share = 1.0
    """Discount a token (`gae` only)."""
    lam: Share = 0.95
    """λ of GAE for the policy's advantages."""
    lam_critic: Share | None = None
    """λ of GAE for the critic's targets; when not given, `lam`."""
    lam_length_alpha: Positive | None = None
    """α of the length-adaptive λ = 1 - 1/(α · length), which replaces `lam`; null is off."""
    max_staleness: Count = 0
    """Steps that sampling runs ahead while the learner updates; `importance` corrects, `truncate` where not given."""
    importance: Literal["none", "truncate", "mask"] = "none"
    """Correction for the gap between sampler and learner: weights π_old/π_behavior, capped or masked."""
    importance_cap: Annotated[float, Field(gt=1)] = 2.0
    """Cap of those weights; `mask` drops tokens outside [1/cap, cap]."""
    dynamic_sampling: Count = 0
    """How often groups whose rewards are all equal are sampled again with other prompts; 0 is off (DAPO)."""
    overlong_share: Share = 0.0
    """Last share of the longest reply possible over which a penalty grows from 0 to -1; 0 is off (DAPO)."""


class KLConfig(Section):
    placement: Literal["none", "reward", "loss"] = "none"
    """Where the KL to the frozen reference acts; `none` holds no reference."""
    coefficient: NonNegative = 0.05
    """β, the KL's weight; its first value where there is a `kl.target`."""
    estimator: KLEstimatorName = "k1"
    """Estimator of the KL; in the loss `k1` has no useful gradient and is refused."""
    target: Positive | None = None
    """KL a reply, in nats, that an adaptive β steers to; null keeps β as it is."""
    horizon: PositiveInt = 10000
    """Replies over which an adaptive β reacts."""


class CriticConfig(Section):
    path: Text | None = None
    """Folder the critic starts from, a saved one with its value head; when not given, a copy of the policy."""
    shared: bool = False
    """The critic is a second adapter on the policy's frozen base, with a value head (needs `lora.rank`)."""
    learning_rate: Positive = 1e-5
    """Step size of the critic's own optimiser."""
    warmup_steps: Count = 0
    """Steps of the loop in which only the critic learns."""
    value_clip: Positive | None = None
    """Bound on how far a value may move from the old one in a batch; null is off."""
    normalize_values: bool = False
    """Let the critic predict returns scaled by their running mean and standard deviation."""


class OptimizerConfig(Section):
    learning_rate: Positive = 1e-6
    """Step size of the policy's AdamW."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Course of the learning rate after the warm-up; it would reach 0 one step after the last."""
    warmup_steps: Count = 0
    """Steps over which the learning rate rises linearly."""
    betas: Betas = Field(default=[0.9, 0.999])
    """Decays of AdamW's first and second moment."""
    weight_decay: NonNegative = 0.0
    """AdamW's weight decay."""
    max_grad_norm: Positive | None = 1.0
    """Gradients are scaled down to this norm; null is off."""
    reset: Literal["never", "batch"] = "never"
    """`batch` starts every batch with fresh moments of the policy's optimiser."""


class LearnerConfig(Section):
    micro_batch_tokens: PositiveInt = 8192
    """Most tokens, pads included, in one forward pass (a longer sequence goes alone)."""


class EvalConfig(Section):
    every: Count = 5
    """Steps of the loop between evaluations on held-out prompts; 0 evaluates at the end only."""
    samples: PositiveInt = 4
    """Replies sampled for each held-out prompt."""
    limit: PositiveInt | None = None
    """Evaluate on the first so many held-out prompts only."""


class CheckpointConfig(Section):
    every: Count = 10
    """Steps of the loop between checkpoints; 0 makes one at the end only."""
    keep: PositiveInt = 2
    """Newest checkpoints kept; the one of the best held-out accuracy stays besides."""


class ChecksConfig(Section):
    strict: bool = False
    """End the run where a standing check fails."""
    skip_non_finite: Count = 0
    """Optimiser steps in a row with numbers that are not finite to skip; one more ends the run."""


class StoreConfig(Section):
    keep_newest: PositiveInt = 100
    """Newest batches kept whole; of the older ones every 50th step is."""
    max_gb: Positive = 5.0
    """Bound on the space of whole batches, in 10⁹ bytes."""
    final_pass: bool = False
    """Record one more pass after a batch's last optimiser step."""


class Config(Section):
    """A run of `taut train`. Keys that are not given come from the preset, then the world, then the defaults."""

    run: RunConfig = RunConfig()
    model: ModelConfig = ModelConfig()
    lora: LoraConfig = LoraConfig()
    data: DataConfig = DataConfig()
    reward: Text = "exact-match"
    """What a reply earns, a sum such as `rewards.py:score + 0.2*rewards.py:style`; see docs/rewards.md."""
    environment: EnvironmentConfig = EnvironmentConfig()
    scoring: ScoringConfig = ScoringConfig()
    sampling: SamplingConfig = SamplingConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    kl: KLConfig = KLConfig()
    critic: CriticConfig = CriticConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    learner: LearnerConfig = LearnerConfig()
    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    checks: ChecksConfig = ChecksConfig()
    store: StoreConfig = StoreConfig()

    @property
    def longest_reply(self) -> int:
        """The most tokens that are sampled for a reply, all its turns together."""
        turns = 1 if self.environment.path is None else self.environment.max_turns
        return turns * self.sampling.max_new_tokens

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, explicit: Any) -> Any:
        return fill_in_run(explicit) if isinstance(explicit, dict) else explicit
