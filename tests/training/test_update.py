"""What every batch of updates must hold, whatever the algorithm."""

import copy
import math
import re
from dataclasses import replace

import pytest
import torch

from taut.objective.policy import cat_clip_states
from taut.objective.reduce import masked
from taut.training import learner as learner_module
from taut.training import update as learner_update
from taut.training.batch import pad_width, sequences_of
from taut.training.learner import LocalLearner
from taut.training.metrics import step_metrics
from taut.training.non_finite import NonFiniteError, refuse_halted


def weights_of(learner):
    return torch.cat([p.detach().flatten() for p in learner.policy.parameters()]).clone()


def gradients_of(learner):
    return torch.cat([p.grad.flatten() for p in learner.policy.parameters()])


@pytest.mark.parametrize(("epochs", "minibatches"), [(1, 1), (4, 1), (1, 4), (3, 2)])
def test_a_batch_takes_epochs_times_minibatches_optimizer_steps(
    make_config, make_learner, make_batch, run_batch, monkeypatch, epochs, minibatches
):
    learner = make_learner(make_config(algorithm__epochs=epochs, algorithm__minibatches=minibatches))
    taken = []
    step = learner.policy_optimizer.step
    monkeypatch.setattr(learner.policy_optimizer, "step", lambda: taken.append(step()))
    _, _, trace = run_batch(learner, make_batch())
    assert len(taken) == epochs * minibatches == len(trace.steps)
    assert [(s.epoch, s.minibatch) for s in trace.steps] == [
        (e, m) for e in range(epochs) for m in range(minibatches)
    ]
    for epoch in range(epochs):
        seen = sorted(row for s in trace.steps if s.epoch == epoch for row in s.rows)
        assert seen == list(range(8)), "every reply once an epoch"


@pytest.mark.parametrize(
    "preset", ["ppo", "ppo-batch-mean", "grpo", "rloo", "gspo", "cispo", "sapo", "dppo", "reinforce++"]
)
@pytest.mark.parametrize("minibatches", [1, 2])
@pytest.mark.parametrize("micro_batch_tokens", [8192, 12])
def test_the_first_ratio_is_exactly_one(
    make_config, make_learner, make_batch, run_batch, preset, minibatches, micro_batch_tokens
):
    config = make_config(
        algorithm__preset=preset,
        algorithm__minibatches=minibatches,
        learner__micro_batch_tokens=micro_batch_tokens,
    )
    _, _, trace = run_batch(make_learner(config), make_batch())
    first, last = trace.steps[0].clip, trace.steps[-1].clip
    assert (first.ratio[first.mask] == 1).all()
    assert not first.binding.any()
    assert (last.ratio[last.mask] != 1).any(), "the later steps must see a policy that moved"


def test_at_learning_rate_zero_every_ratio_stays_one(make_config, make_learner, make_batch, run_batch):
    config = make_config(optimizer__learning_rate=1e-30, algorithm__epochs=2, algorithm__minibatches=2)
    _, _, trace = run_batch(make_learner(config), make_batch())
    clip = cat_clip_states([step.clip for step in trace.steps])
    torch.testing.assert_close(clip.ratio[clip.mask], torch.ones(int(clip.mask.sum())), rtol=0, atol=1e-5)


@pytest.mark.parametrize("preset", ["ppo-batch-mean", "rloo"])
def test_old_logprobs_equal_an_independent_rescoring(
    make_config, make_learner, make_batch, run_batch, preset
):
    """One reply at a time, from a copy of the weights made before the update."""
    learner = make_learner(make_config(algorithm__preset=preset, algorithm__minibatches=2))
    before = copy.deepcopy(learner.policy)
    batch, _, trace = run_batch(learner, make_batch())
    for row in range(batch.size):
        with torch.no_grad():
            alone, entropy = before(sequences_of(batch, [row], "cpu"), temperature=1.0)
        mask = batch.response_mask[row]
        width = mask.shape[0]
        torch.testing.assert_close(
            trace.old_logprobs[row][mask], pad_width(alone, width)[0][mask], rtol=0, atol=1e-4
        )
        torch.testing.assert_close(
            trace.entropy[row][mask], pad_width(entropy, width)[0][mask], rtol=0, atol=1e-4
        )


@pytest.mark.parametrize("normalization", ["token", "sequence", "constant"])
@pytest.mark.parametrize("preset", ["ppo", "ppo-batch-mean", "grpo", "gspo"])
def test_micro_batches_change_neither_loss_nor_gradient(
    make_config, make_learner, make_batch, run_batch, monkeypatch, normalization, preset
):
    losses, gradients = [], []
    for micro_batch_tokens in (8192, 12, 1):
        config = make_config(
            algorithm__preset=preset,
            algorithm__loss_normalization=normalization,
            algorithm__epochs=1,
            algorithm__entropy_coefficient=0.1,
            learner__micro_batch_tokens=micro_batch_tokens,
            optimizer__max_grad_norm=None,
        )
        learner = make_learner(config)
        monkeypatch.setattr(
            learner.policy_optimizer, "step", lambda learner=learner: gradients.append(gradients_of(learner))
        )
        _, _, trace = run_batch(learner, make_batch())
        losses.append(trace.steps[0].scalars)
    assert gradients[0].abs().max() > 1e-3
    for gradient, loss in zip(gradients[1:], losses[1:], strict=True):
        torch.testing.assert_close(gradient, gradients[0], rtol=1e-5, atol=1e-6)
        assert loss == pytest.approx(losses[0], rel=1e-5, abs=1e-6)


def test_replies_that_are_masked_whole_leave_the_weights_and_are_counted(
    make_config, make_learner, make_batch, run_batch
):
    learner = make_learner(make_config(optimizer__weight_decay=0.5, algorithm__minibatches=2))
    batch = make_batch()
    batch.response_mask = torch.zeros_like(batch.response_mask)
    before = weights_of(learner)
    batch, _, trace = run_batch(learner, batch)
    assert torch.equal(weights_of(learner), before), "AdamW would decay weights on a step without gradient"
    assert trace.steps == []
    assert trace.skipped == 8
    metrics = step_metrics(batch, trace, learner.config)
    assert all(value == value for value in metrics.values()), "no metric may be NaN"
    assert metrics["update/skipped"] == 8
    assert "clip/binding" not in metrics, "a share of nothing is absent"
    assert "entropy" not in metrics


def test_pads_are_inert(make_config, make_learner, make_batch, run_batch):
    """The same batch with NaN and 1e6 in every pad gives the same weights, bit for bit."""
    results = []
    for junk in (0.0, float("nan"), 1e6):
        learner = make_learner(make_config(algorithm__preset="ppo", algorithm__minibatches=2))
        batch = make_batch()
        pads = ~batch.response_mask
        batch = replace(batch, behavior_logprobs=batch.behavior_logprobs.masked_fill(pads, junk))
        score = learner.score

        def with_junk(batch, schedule, score=score, pads=pads, junk=junk):
            scored = score(batch, schedule)
            for name in ("old_logprobs", "ref_logprobs", "values", "entropy"):
                setattr(scored, name, getattr(scored, name).masked_fill(pads, junk))
            return scored

        learner.score = with_junk
        batch, _, trace = run_batch(learner, batch)
        results.append((weights_of(learner), step_metrics(batch, trace, learner.config)))
    for weights, metrics in results[1:]:
        assert torch.equal(weights, results[0][0])
        assert metrics == results[0][1]


def state_of(learner):
    """Everything that an update moves, as bytes."""
    models = [learner.policy, learner.critic] if learner.critic else [learner.policy]
    tensors = [tensor for model in models for tensor in model.state_dict().values()]
    for optimizer in (learner.policy_optimizer, learner.critic_optimizer):
        if optimizer is not None:
            tensors += [x for state in optimizer.state.values() for x in state.values()]
    return [tensor.numpy().tobytes() for tensor in tensors]


def test_a_nan_stops_before_the_step_and_names_the_reply_and_token(
    make_config, make_learner, make_batch, run_batch
):
    learner = make_learner(make_config(algorithm__preset="ppo", critic__normalize_values=True))
    batch = make_batch()
    batch.rewards[3] = float("nan")  # whitened advantages carry it into every reply
    before = state_of(learner)
    _, _, trace = run_batch(learner, batch)
    assert re.fullmatch(
        r"step 1, epoch 1, minibatch 1: the advantage of token 0 of reply \d \(prompt \d: 'prompt \d'\) is nan; "
        r"no optimiser step was taken",
        trace.halted,
    )
    assert state_of(learner) == before
    assert [step.applied for step in trace.steps] == [False]
    assert trace.skipped == 4
    with pytest.raises(NonFiniteError, match="the advantage of token 0"):
        refuse_halted(trace)


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_a_logprob_that_is_not_finite_stops_even_where_it_costs_nothing(
    make_config, make_learner, make_batch, run_batch, monkeypatch, bad
):
    """Token 1 of reply 4 has advantage 0: neither loss nor gradient would show that its logprob is bad."""
    learner, batch = make_learner(make_config()), make_batch()
    batch.rewards[:] = 1.0
    forward = learner.policy.forward

    def with_one_bad(sequences, temperature):
        logprobs, entropy = forward(sequences, temperature)
        [place] = [
            place
            for place, ids in enumerate(sequences.reply_ids.tolist())
            if tuple(ids[: len(batch.rollouts[4].ids)]) == batch.rollouts[4].ids
        ]
        mark = torch.zeros_like(logprobs, dtype=torch.bool)
        mark[place, 1] = True
        return logprobs.masked_fill(mark, bad), entropy

    monkeypatch.setattr(learner.policy, "forward", with_one_bad)
    before = state_of(learner)
    _, _, trace = run_batch(learner, batch)
    assert f"the logprob of token 1 of reply 4 (prompt 2: 'prompt 2') is {bad}" in trace.halted
    assert state_of(learner) == before


def test_a_gradient_that_one_token_makes_infinite_is_traced_to_it(
    make_config, make_learner, make_batch, run_batch
):
    """The head's row of the token that only that place holds overflows; loss and logprobs are finite."""
    learner, batch = make_learner(make_config(algorithm__epochs=1)), make_batch()
    batch.rewards[:] = torch.tensor([1.0, 0, 1, 0, 1, 0, 1, 0])
    row, token = 4, 2
    hidden = learner.policy.backbone.h[0].mlp.c_fc.bias

    def overflow(gradient):
        return gradient * float("inf") if overflow.trained[row, token] else gradient

    add = learner_update.policy_gradient

    def watched(policy, part, *arguments):
        overflow.trained = part.response_mask
        return add(policy, part, *arguments)

    hidden.register_hook(overflow)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner_module, "policy_gradient", watched)
        before = state_of(learner)
        _, _, trace = run_batch(learner, batch)
    assert state_of(learner) == before
    assert (
        "the gradient of model.transformer.h.0.mlp.c_fc.bias is not finite, by token 2 of reply 4 "
        "(prompt 2: 'prompt 2')"
    ) in trace.halted
    assert all(parameter.grad is None for parameter in learner.policy.parameters())


def test_bad_steps_are_skipped_and_counted_up_to_the_limit(
    make_config, make_learner, make_batch, run_batch, monkeypatch
):
    config = make_config(checks__skip_non_finite=2, algorithm__epochs=6)
    bad_at: set[int] = set()
    head, seen = None, []

    def spoil(gradient):
        return gradient * float("nan") if len(seen) - 1 in bad_at else gradient

    monkeypatch.setattr(learner_module, "where_gradient_is_not_finite", lambda *_: "the gradient is bad")
    step = LocalLearner._optimizer_step
    monkeypatch.setattr(LocalLearner, "_optimizer_step", lambda *given: seen.append(0) or step(*given))
    for bad_at, applied, halted in (
        ({1, 2}, [True, False, False, True, True, True], False),
        ({0, 1, 3, 4}, [False, False, True, False, False, True], False),
        ({1, 2, 3}, [True, False, False, False], True),
    ):
        seen.clear()
        learner = make_learner(config)
        head = learner.policy.model.get_output_embeddings().weight
        head.register_hook(spoil)
        batch, _, trace = run_batch(learner, make_batch())
        assert [s.applied for s in trace.steps] == applied
        assert trace.halted.endswith("no optimiser step was taken, 3 times in a row") == halted
        metrics = step_metrics(batch, trace, config)
        assert metrics["update/not_finite"] == len(bad_at)
        assert metrics["update/steps"] == sum(applied)
        assert metrics["update/skipped"] == 6 - sum(applied)
        assert all(math.isfinite(value) for value in metrics.values())


def test_the_target_kl_stops_a_batch_and_counts_what_it_skipped(
    make_config, make_learner, make_batch, run_batch
):
    config = make_config(algorithm__epochs=6, algorithm__target_kl=1e-3, optimizer__learning_rate=3e-2)
    learner = make_learner(config)
    batch, _, trace = run_batch(learner, make_batch())
    applied = [step.applied for step in trace.steps]
    assert applied[0], "the first step sees KL 0"
    assert applied == [True] * (len(applied) - 1) + [False]
    assert trace.steps[-1].scalars["kl/old_k3"] > 1e-3
    assert all(step.scalars["kl/old_k3"] <= 1e-3 for step in trace.steps[:-1])
    assert trace.skipped == 6 - (len(applied) - 1)
    assert step_metrics(batch, trace, config)["update/skipped"] == trace.skipped


def test_one_clipped_token_stops_while_the_reply_moves_on(make_config, make_learner, make_batch, run_batch):
    """Inside a batch, binding tokens are those outside on the favoured side, and not all at once."""
    learner = make_learner(make_config(algorithm__epochs=3, optimizer__learning_rate=3e-3))
    batch, _, trace = run_batch(learner, make_batch())
    clip = trace.steps[-1].clip
    advantages = batch.advantages[trace.steps[-1].rows]
    expected = ((clip.ratio > 1.2) & (advantages > 0)) | ((clip.ratio < 0.8) & (advantages < 0))
    assert torch.equal(clip.binding, masked(expected, clip.mask).bool())
    in_reply = clip.binding.sum(1)
    assert ((in_reply > 0) & (in_reply < clip.mask.sum(1))).any()


def test_a_kl_in_the_loss_pulls_back_to_the_reference(make_config, make_learner, make_batch, run_batch):
    config = make_config(
        kl__placement="loss", kl__estimator="k3", kl__coefficient=1.0, algorithm__epochs=8
    )  # fmt: skip
    learner = make_learner(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in learner.policy.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=generator))
    batch = make_batch()
    batch.rewards[:] = 1.0  # equal rewards: every advantage is 0, so only the KL moves anything
    _, _, trace = run_batch(learner, batch)
    kl = [step.scalars["loss/kl"] for step in trace.steps]
    assert kl[0] > 1e-4
    assert kl[-1] < 0.7 * kl[0]


def test_weights_of_the_importance_correction_scale_the_gradient(
    make_config, make_learner, make_batch, run_batch
):
    """Sampled with half the learner's probability, every token weighs twice, up to the cap."""
    gradients = {}
    for name, importance in (("off", "none"), ("on", "truncate")):
        config = make_config(
            algorithm__importance=importance,
            algorithm__importance_cap=2.0,
            algorithm__epochs=1,
            optimizer__max_grad_norm=None,
        )
        learner = make_learner(config)
        batch = make_batch(behavior=-50.0)  # so unlikely that every weight is at the cap
        learner.policy_optimizer.step = lambda name=name, learner=learner: gradients.update(
            {name: gradients_of(learner)}
        )
        run_batch(learner, batch)
    torch.testing.assert_close(gradients["on"], 2 * gradients["off"], rtol=1e-5, atol=1e-7)


def test_fresh_moments_forget_the_batch_before(make_config, make_learner, make_batch, run_batch):
    config = make_config(optimizer__reset="batch", algorithm__epochs=2)
    learner = make_learner(config)
    run_batch(learner, make_batch(), step=1)
    run_batch(learner, make_batch(1), step=2)
    assert {int(s["step"]) for s in learner.policy_optimizer.state.values()} == {2}
    kept = make_learner(make_config(algorithm__epochs=2))
    run_batch(kept, make_batch(), step=1)
    run_batch(kept, make_batch(1), step=2)
    assert {int(s["step"]) for s in kept.policy_optimizer.state.values()} == {4}


def test_the_final_pass_records_the_policy_after_the_last_step(
    make_config, make_learner, make_batch, run_batch
):
    learner = make_learner(make_config(store__final_pass=True, algorithm__epochs=1))
    batch, _, trace = run_batch(learner, make_batch())
    with torch.no_grad():
        after, _ = learner.policy(sequences_of(batch, list(range(8)), "cpu"), 1.0)
    mask = batch.response_mask
    torch.testing.assert_close(trace.final_logprobs[mask], after[mask])
    assert not torch.allclose(trace.final_logprobs[mask], trace.old_logprobs[mask])


def test_a_number_that_is_not_finite_names_its_own_reply_and_not_its_neighbour_in_a_row(
    make_config, make_learner, make_batch, run_batch
):
    """Token 11 has an embedding of NaN. It stands in reply 3 alone; reply 2 has the same prompt, and comes first."""
    learner, batch = make_learner(make_config()), make_batch()
    for row, rollout in enumerate(batch.rollouts):
        reply = [5] * len(rollout.ids)
        if row == 3:
            reply[0] = 11
        batch.reply_ids[row, : len(reply)] = torch.tensor(reply)
        batch.rollouts[row] = replace(
            rollout, ids=tuple(reply), prompt=replace(rollout.prompt, ids=(1, 2, 3))
        )
    with torch.no_grad():
        learner.policy.model.get_input_embeddings().weight[11] = torch.nan
    _, _, trace = run_batch(learner, batch)
    assert trace.steps[0].micro_batches[0].shared == (8,)
    assert "of reply 3 " in trace.halted
    assert trace.old_logprobs[:3][batch.response_mask[:3]].isfinite().all()
