"""PPO with reference, KL in the reward and critic against TRL 1.12's PPOTrainer, the last with a critic.

    python benchmarks/trl_ppo.py [--only a b] [--pairs 5]

The batches (a) and (b) of trl_grpo.py, in turn. PPOTrainer samples one reply a prompt, so each prompt stands in its
data as often as it has replies here; its reward is a module that counts different ids. TRL's policy and critic step by
one optimiser, Taut's by two. A quarter of an hour on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence

from peers.against_trl import Claim, arguments, at_least, run, summaries
from peers.pairs import Row
from peers.venvs import python_of
from peers.work import PPO

TIMES = {"a": 3.0, "b": 2.5}


def main() -> None:
    options = arguments(__doc__, PPO)
    run(options, "trl_ppo", "ppo", PPO, python_of("trl==1.12.0", "requests"), claims_of)


def claims_of(rows: Sequence[Row]) -> list[Claim]:
    return [
        at_least(row, "times as many batches a second as TRL", "ratio", TIMES[name])
        for name, row in summaries(rows).items()
    ]


if __name__ == "__main__":
    main()
