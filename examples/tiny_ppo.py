"""PPO on a language model, whole, in one file: `python examples/tiny_ppo.py` (well under a minute on one core).

A tiny transformer learns sums such as `23+45=` -> `68;` from a teacher who makes slips. It ends up knowing addition
and answering carelessly, as its teacher did. PPO then rewards exact answers, and the slips go away.
Read from the bottom: `main` is the story, `clipped_update` is PPO. Plain torch; nothing of Taut is imported.
"""

import random

import torch
from torch import Tensor, nn

CHARACTERS = "0123456789+=;"
END = CHARACTERS.index(";")
PROMPT_TOKENS, REPLY_TOKENS = 6, 5  # `23+45=`, and at most this much reply
SLIP = 0.3


# The world ------------------------------------------------------------------------------------------------------


def encode(text: str) -> list[int]:
    return [CHARACTERS.index(character) for character in text]


def careless_answer(answer: str) -> str:
    """The teacher: a digit is replaced with probability 0.3, and a digit too many typed with probability 0.3."""
    digits = [random.choice("0123456789") if random.random() < SLIP else digit for digit in answer]
    if random.random() < SLIP:
        digits.append(random.choice("0123456789"))
    return "".join(digits) + ";"


def sums(count: int) -> list[tuple[str, str]]:
    """The first so many of the 1,600 sums in random order, as (prompt, answer)."""
    every = [(f"{a}+{b}=", str(a + b)) for a in range(10, 50) for b in range(10, 50)]
    return random.sample(every, count)


def to_prompts(questions: list[tuple[str, str]]) -> Tensor:
    return torch.tensor([encode(prompt) for prompt, _ in questions])


def rewards_of(replies: Tensor, mask: Tensor, questions: list[tuple[str, str]], samples: int) -> Tensor:
    """1 for a reply that is exactly the answer and its end mark, else 0."""
    answers = [answer + ";" for _, answer in questions for _ in range(samples)]
    given = ["".join(CHARACTERS[i] for i in reply[kept]) for reply, kept in zip(replies, mask, strict=True)]
    return torch.tensor([float(text == answer) for text, answer in zip(given, answers, strict=True)])


# The model ------------------------------------------------------------------------------------------------------


class TinyTransformer(nn.Module):
    """Two pre-norm layers of width 80 that read characters: about 160,000 parameters, drawn as PyTorch draws them."""

    def __init__(self, width: int = 80, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(CHARACTERS), width)
        self.positions = nn.Embedding(PROMPT_TOKENS + REPLY_TOKENS, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(CHARACTERS), bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """[B, L] ids -> [B, L, V] logits of the next character."""
        length = ids.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)  # no token sees what comes after it
        x = self.characters(ids) + self.positions.weight[:length]
        for layer in self.layers:
            x = layer(x, src_mask=future)
        return self.head(self.norm(x))


def reply_logprobs(model: nn.Module, prompts: Tensor, replies: Tensor) -> Tensor:
    """[B, T]: log π(token | everything before it) of each reply token, pads included."""
    logits = model(torch.cat([prompts, replies[:, :-1]], 1))
    before = logits[:, prompts.shape[1] - 1 :]  # the logits that drew a token stand one place before it
    return before.log_softmax(-1).gather(-1, replies[..., None])[..., 0]


def until_the_end(replies: Tensor) -> Tensor:
    """[B, T] mask: every token up to the first end mark, and the mark too, since stopping is also learned."""
    ends = replies == END
    return ends.cumsum(1) - ends.long() == 0


@torch.no_grad()
def sample(model: nn.Module, prompts: Tensor, samples: int, greedy: bool = False) -> tuple[Tensor, Tensor]:
    """Replies [B · samples, T] at temperature 1, those to one prompt side by side, and their mask."""
    ids = prompts.repeat_interleave(samples, 0)
    for _ in range(REPLY_TOKENS):
        logits = model(ids)[:, -1]
        token = logits.argmax(-1) if greedy else torch.multinomial(logits.softmax(-1), 1)[:, 0]
        ids = torch.cat([ids, token[:, None]], 1)
    replies = ids[:, prompts.shape[1] :]
    return replies, until_the_end(replies)


def fine_tune(model: nn.Module, questions: list[tuple[str, str]], steps: int = 1000, batch: int = 32) -> None:
    """Imitates the careless teacher: cross-entropy on its replies. The learning rate stays high to the end."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
    for _ in range(steps):
        drawn = random.choices(questions, k=batch)
        demonstrations = [careless_answer(answer).ljust(REPLY_TOKENS, ";") for _, answer in drawn]
        replies = torch.tensor([encode(text) for text in demonstrations])
        logprobs = reply_logprobs(model, to_prompts(drawn), replies)
        loss = -logprobs[until_the_end(replies)].mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warmup.step()


# PPO ------------------------------------------------------------------------------------------------------------


def clipped_update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    prompts: Tensor,
    replies: Tensor,
    mask: Tensor,
    advantages: Tensor,
    epochs: int = 4,
    clip: float = 0.2,
) -> float:
    """Several steps on one batch, each token on a leash. Returns the clipped share of its tokens.

    prompts [B, P], replies and mask [B, T], advantages [B]. The ratio ρ is a token's probability now over its
    probability when it was sampled. PPO maximises min(ρ A, clip(ρ, 1 - ε, 1 + ε) A): once ρ has gone ε beyond 1 in
    the direction that A pushes, the smaller term is a constant, and the token pushes no further.
    """
    advantage = advantages[:, None]  # a reply's advantage is that of each of its tokens
    old_logprobs, shares = None, []
    for _ in range(epochs):
        logprobs = reply_logprobs(model, prompts, replies)
        if old_logprobs is None:
            old_logprobs = logprobs.detach()  # nothing has moved yet, so the first ratio is exactly 1
        ratio = (logprobs - old_logprobs).exp()
        objective = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
        loss = -objective[mask].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        raised_enough = (advantage > 0) & (ratio > 1 + clip)
        lowered_enough = (advantage < 0) & (ratio < 1 - clip)
        shares.append((raised_enough | lowered_enough)[mask].float().mean())
    return torch.stack(shares).mean().item()


def accuracy(
    model: nn.Module, questions: list[tuple[str, str]], samples: int = 4, greedy: bool = False
) -> float:
    replies, mask = sample(model, to_prompts(questions), samples, greedy)
    return rewards_of(replies, mask, questions, samples).mean().item()


def report(when: str, model: nn.Module, questions: list[tuple[str, str]]) -> None:
    sampled, greedy = accuracy(model, questions), accuracy(model, questions, samples=1, greedy=True)
    print(f"{when}: {sampled:.0%} of held-out answers right, {greedy:.0%} if the likeliest token is taken")


def main(seed: int = 0, steps: int = 40, prompts_per_step: int = 8, samples: int = 8) -> None:
    torch.set_num_threads(1)  # the model is too small to share out
    torch.manual_seed(seed)
    random.seed(seed)
    every = sums(700)
    held_out, demonstrated = every[:200], every[200:]
    practised = demonstrated[:80]
    model = TinyTransformer()
    fine_tune(model, demonstrated)
    report("fine-tuned", model, held_out)

    for step in range(1, steps + 1):
        start = (step - 1) * prompts_per_step % len(practised)
        questions = practised[start : start + prompts_per_step]
        prompts = to_prompts(questions)
        replies, mask = sample(model, prompts, samples)
        rewards = rewards_of(replies, mask, questions, samples)
        advantages = rewards - rewards.mean()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # fresh for every batch
        prompts = prompts.repeat_interleave(samples, 0)
        clipped = clipped_update(model, optimizer, prompts, replies, mask, advantages)
        print(f"step {step:2}   reward {rewards.mean():.2f}   clipped {clipped:5.1%}")

    report("after PPO", model, held_out)


if __name__ == "__main__":
    main()
