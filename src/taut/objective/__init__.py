"""The mathematics of PPO on language models: pure torch functions over [B, T] reply tokens and a bool mask.

Nothing here knows a config, a model or a process. In every function of every module

- `mask` is `response_mask`: true where a token is trained on. What stands at a masked slot, NaN and inf
  included, reaches no value and no gradient, and a [B, T] result is 0 there;
- only `logprobs` and `values` (and what is computed from them) carry gradient. Old, reference and behaviour
  logprobs, advantages, returns and weights are constants, and are detached here;
- a statistic with nothing to average is None, or absent from a dict. It is never NaN, and 0 is a measurement;
- a ValueError names a user's mistake.
"""
