// Baselines over replies and GAE over tokens: the numbers of objective/advantage.py, in float64.

// Rewards that differ by rounding alone are equal, as in Python: 4 float32 epsilons of the largest.
const EQUAL = 4 * 1.1920928955078125e-7;

// A baseline: rewards and groups (equal for replies to one prompt), both arrays [B], to advantages [B].
const BASELINES = {
  "batch-mean": (rewards) => centered(rewards, one(rewards)).map((part) => part.deviation),
  "group-mean": (rewards, groups) => centered(rewards, groups).map((part) => part.deviation),
  "group-standardized": standardized,
  "leave-one-out": (rewards, groups) => centered(rewards, groups).map(
    ({ deviation, group }) => deviation * (group.count / Math.max(group.count - 1, 1)),
  ),
  "global-normalized": (rewards) => standardized(rewards, one(rewards)),
};

export function baseline(name, rewards, groups) {
  return BASELINES[name](rewards, groups);
}

// {mean, std, equal} of some rewards; std is the sample's (n − 1), and 0 where they are equal.
export function spread(rewards) {
  const [group] = groupsOf(rewards, one(rewards)).values();
  return group ? { mean: group.mean, std: group.std, equal: group.equal } : { mean: NaN, std: NaN, equal: true };
}

const one = (rewards) => rewards.map(() => 0);

function standardized(rewards, groups) {
  return centered(rewards, groups).map(({ deviation, group }) => (group.std > 0 ? deviation / group.std : 0));
}

function centered(rewards, groups) {
  const found = groupsOf(rewards, groups);
  return rewards.map((reward, i) => {
    const group = found.get(groups[i]);
    return { group, deviation: group.equal ? 0 : reward - group.mean };
  });
}

function groupsOf(rewards, groups) {
  const members = new Map();
  rewards.forEach((reward, i) => members.set(groups[i], [...(members.get(groups[i]) ?? []), reward]));
  return new Map([...members].map(([name, values]) => [name, describe(values)]));
}

function describe(values) {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  const furthest = Math.max(...values.map((x) => Math.abs(x - mean)));
  const equal = furthest <= EQUAL * Math.max(...values.map(Math.abs));
  const squares = values.reduce((sum, x) => sum + (x - mean) ** 2, 0);
  return { count: values.length, mean, equal, std: equal ? 0 : Math.sqrt(squares / Math.max(values.length - 1, 1)) };
}

// Generalised advantage estimation (1506.02438) over one reply's trained tokens:
//   δ_t = r_t + γ V_{t+1} − V_t     A_t = δ_t + γ λ A_{t+1}     R_t = A_t + V_t
// `bootstrap` is V after the last token: 0 unless the reply was cut.
export function gae({ rewards, values, gamma, lam, bootstrap = 0 }) {
  const length = rewards.length;
  const deltas = new Array(length);
  const advantages = new Array(length);
  let nextValue = bootstrap;
  let nextAdvantage = 0;
  for (let t = length - 1; t >= 0; t -= 1) {
    deltas[t] = rewards[t] + gamma * nextValue - values[t];
    advantages[t] = deltas[t] + gamma * lam * nextAdvantage;
    nextValue = values[t];
    nextAdvantage = advantages[t];
  }
  return { deltas, advantages, returns: advantages.map((advantage, t) => advantage + values[t]) };
}

// (γλ)^l, the weight of δ_{t+l} in A_t, at each of `length` tokens; 0 before t.
export function kernel(length, t, gamma, lam) {
  return Array.from({ length }, (_, s) => (s < t ? 0 : (gamma * lam) ** (s - t)));
}
