// The Python that prints the page's numbers. A browser test runs each snippet and compares.

import { OLD } from 'taut/maths/clip_walk.js';
import { REPLY, REPLY_OLD } from 'taut/maths/reply_walk.js';

const plain = (value) => (Number.isFinite(value) ? String(value) : 'None');
// On an edge, exp(log ρ) may round to the other side of it: a hair nearer to 1, the token is inside, as the page says.
const nudge = (ratio, { clipLow, clipHigh }) => (ratio === 1 - clipLow || ratio === 1 + clipHigh ? ' * (1 - 1e-15)' : '');
const HEAD = `import torch
from taut.objective.policy import clipped_surrogate
`;

/** One token at one ratio. */
export function pointSnippet({ ratio, advantage, clipLow, clipHigh, dualClip = null }) {
  const inside = nudge(ratio, { clipLow, clipHigh });
  const dual = dualClip ? `, dual_clip=${dualClip}` : '';
  return `${HEAD}
log_ratio = (torch.tensor([[${plain(ratio)}]], dtype=torch.float64).log()${inside}).requires_grad_()
advantage = torch.full_like(log_ratio, ${plain(advantage)})
mask = torch.ones_like(log_ratio, dtype=torch.bool)
surrogate = clipped_surrogate(log_ratio, advantage, mask, clip_low=${plain(clipLow)}, clip_high=${plain(clipHigh)}${dual})

objective = (-surrogate.loss).sum()
(weight,) = torch.autograd.grad(objective, log_ratio)  # d objective / d log π
slope = weight / log_ratio.exp()  # d objective / dρ
print(f"objective {objective.item():.2f}, slope {slope.item():.2f}")
`;
}

/** Gradient steps on the softmax, from a start. */
export function walkSnippet({ start, steps, stepSize, advantage, clipLow, clipHigh }) {
  const shift = `math.log(${plain(start)} * 0.4 / (1 - ${plain(start)} * 0.4)) - math.log(0.4 / 0.6)`;
  const moved = start === 1 ? '' : `logits[0] += ${shift}  # so that ρ = ${plain(start)}\n`;
  const begin = start === 1 ? '' : ` + math.log(${plain(start)})${nudge(start, { clipLow, clipHigh })}`;
  return `${start === 1 ? '' : 'import math\n\n'}${HEAD}
old = torch.tensor([${OLD.join(', ')}], dtype=torch.float64)  # token 0 was sampled
logits = old.log()
${moved}first = logits.log_softmax(-1)[0]
advantage = torch.full((1, 1), ${plain(advantage)}, dtype=torch.float64)
mask = torch.ones((1, 1), dtype=torch.bool)

for step in range(${steps + 1}):
    logits.requires_grad_()
    log_ratio = (logits.log_softmax(-1)[0] - first${begin}).reshape(1, 1)
    surrogate = clipped_surrogate(log_ratio, advantage, mask, clip_low=${plain(clipLow)}, clip_high=${plain(clipHigh)})
    objective = (-surrogate.loss).sum()
    gradient, weight = torch.autograd.grad(objective, [logits, log_ratio])
    ratio = log_ratio.exp().item()
    print(f"step {step}: ρ {ratio:.2f}, objective {objective.item():.2f}, slope {weight.item() / ratio:.2f}")
    logits = (logits + ${plain(stepSize)} * gradient).detach()
`;
}

/** The table of four cases. */
export function casesSnippet(cases, epsilon) {
  const list = (name) => cases.map((one) => plain(one[name])).join(', ');
  return `${HEAD}
advantages = torch.tensor([[${list('advantage')}]], dtype=torch.float64)
log_ratio = torch.tensor([[${list('ratio')}]], dtype=torch.float64).log()
mask = torch.ones_like(log_ratio, dtype=torch.bool)
surrogate = clipped_surrogate(log_ratio, advantages, mask, clip_low=${epsilon}, clip_high=${epsilon})

for objective, held in zip(-surrogate.loss[0], surrogate.clip.binding[0]):
    print(f"objective {objective.item():.1f}, {'held' if held else 'still learning'}")
`;
}

/** A reply's tokens at one step: ratios, what is held, the reply's ratio. */
export function replySnippet(probabilities) {
  return `import torch
from taut.objective.policy import clipped_surrogate, log_ratio, sequence_log_ratio

tokens = [${REPLY.map((word) => `"${word}"`).join(', ')}]
old = torch.tensor([[${REPLY_OLD.join(', ')}]], dtype=torch.float64)
now = torch.tensor([[${probabilities.map((one) => Number(one.toFixed(6))).join(', ')}]], dtype=torch.float64)
mask = torch.ones_like(now, dtype=torch.bool)
ratio = log_ratio(now.log(), old.log(), mask)
surrogate = clipped_surrogate(ratio, torch.ones_like(now), mask, clip_low=0.2, clip_high=0.2)

for token, one, held in zip(tokens, surrogate.clip.ratio[0], surrogate.clip.binding[0]):
    print(f"{token}: ρ {one.item():.3f}, {'held' if held else 'moving'}")
print(f"sequence ratio {sequence_log_ratio(ratio, mask)[0, 0].exp().item():.3f}")
`;
}

/** Moves of probability: the ratio, and what PPO and DPPO hold of them. */
export function movesSnippet(moves, clip, delta) {
  const list = (name) => moves.map((one) => plain(one[name])).join(', ');
  return `import torch
from taut.objective.policy import clipped_surrogate, dppo, log_ratio

old = torch.tensor([[${list('old')}]], dtype=torch.float64)
now = torch.tensor([[${list('now')}]], dtype=torch.float64)
mask = torch.ones_like(now, dtype=torch.bool)
advantages = torch.where(now >= old, 1.0, -1.0).double()  # each moved as its advantage wanted
ratio = log_ratio(now.log(), old.log(), mask)
ppo = clipped_surrogate(ratio, advantages, mask, clip_low=${clip}, clip_high=${clip})
by_probability = dppo(now.log(), old.log(), advantages, mask, clip_low=${delta}, clip_high=${delta})

for rho, by_ratio, by_move in zip(ratio.exp()[0], ppo.clip.binding[0], by_probability.clip.binding[0]):
    print(f"ρ {rho.item():.3f}, PPO {'held' if by_ratio else 'not held'}, DPPO {'held' if by_move else 'not held'}")
`;
}

/** One token under the whole family. */
export function familySnippet({ ratio, advantage, oldProbability }) {
  return `import torch
from taut.objective.policy import cispo, clipped_surrogate, dppo, sapo

old = torch.tensor([[${oldProbability}]], dtype=torch.float64).log()
log_ratio = torch.tensor([[${plain(ratio)}]], dtype=torch.float64).log().requires_grad_()
logprobs = old + log_ratio
advantage = torch.full_like(old, ${plain(advantage)})
mask = torch.ones_like(old, dtype=torch.bool)
family = {
    "ppo": clipped_surrogate(log_ratio, advantage, mask, 0.2, 0.2),
    "clip-higher": clipped_surrogate(log_ratio, advantage, mask, 0.2, 0.28),
    "dual-clip": clipped_surrogate(log_ratio, advantage, mask, 0.2, 0.2, dual_clip=3),
    "cispo": cispo(logprobs, log_ratio, advantage, mask, None, 4),
    "gspo": clipped_surrogate(log_ratio, advantage, mask, 0.0003, 0.0004),  # of a reply of one token
    "sapo": sapo(log_ratio, advantage, mask, 0.2, 0.2),
    "dppo": dppo(logprobs, old, advantage, mask, 0.15, 0.15),
}

for name, surrogate in family.items():
    objective = (-surrogate.loss).sum()
    (weight,) = torch.autograd.grad(objective, log_ratio, retain_graph=True)
    print(f"{name}: objective {objective.item():.2f}, gradient weight {weight.item():.2f}")
`;
}
