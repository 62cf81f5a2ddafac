"""Tasks by name, and answers found before they are verified."""

from __future__ import annotations

import sys
from decimal import Decimal

import pytest

from taut.tasks import reasoning
from taut.tasks.reasoning import generate_rows, score, stated_answer
from taut.tasks.sources import read_rows


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ImportError, match=r"pip install 'taut\[reasoning\]'"):
        reasoning.generate_rows("reasoning-gym:chain_sum", 0)


class TestWithTheLibrary:
    @pytest.fixture(autouse=True)
    def _library(self):
        pytest.importorskip("reasoning_gym")

    def test_a_task_by_name_with_its_arguments(self):
        rows = read_rows("reasoning-gym:chain_sum?size=3&min_terms=2&max_terms=2", seed=4)
        assert len(rows) == 3
        assert all(row["metadata"]["num_terms"] == 2 for row in rows)
        for row in rows:
            expression = row["metadata"]["expression"]
            assert expression in row["prompt"]
            assert row["answer"] == str(eval(expression))

    def test_tasks_are_drawn_with_the_runs_seed_or_their_own(self):
        by_run = [generate_rows("reasoning-gym:chain_sum?size=3", seed) for seed in (1, 1, 2)]
        assert by_run[0] == by_run[1] != by_run[2]
        own = generate_rows("reasoning-gym:chain_sum?size=3&seed=1", 7)
        assert [row["prompt"] for row in own] == [row["prompt"] for row in by_run[0]]

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            (
                "reasoning-gym:chain_summ",
                "data reasoning-gym:chain_summ: Dataset 'chain_summ' not registered",
            ),
            ("reasoning-gym:chain_sum?terms=2", "unexpected keyword argument 'terms'"),
            ("reasoning-gym:chain_sum?min_terms=5&max_terms=2", "max_terms must be >= min_terms"),
        ],
    )
    def test_what_is_unknown_or_refused_is_named(self, path, message):
        with pytest.raises(ValueError, match=message):
            generate_rows(path, 0)

    @pytest.mark.parametrize(
        ("reply", "answer"),
        [
            ("42", "42"),
            ("First 41.\n\n  42 \n\n", "42"),
            ("<answer> 42 </answer> and so on\n7", "42"),
            ("<answer>41</answer> no, <answer>42</answer>", "42"),
            ("it is 42 <answer>", "it is 42 <answer>"),
            ("<answer></answer>\n42", ""),
            ("", ""),
            ("\n ", ""),
        ],
    )
    def test_the_answer_a_reply_states(self, reply, answer):
        assert stated_answer(reply) == answer

    @pytest.mark.parametrize(
        ("reply", "reward"),
        [
            ("{}", 1.0),
            ("so\n{}", 1.0),
            ("<answer>{}</answer>", 1.0),
            ("", 0.0),
            ("<answer></answer>", 0.0),
        ],
    )
    def test_a_reply_is_scored_by_the_tasks_verifier(self, reply, reward):
        (row,) = generate_rows("reasoning-gym:chain_sum?size=1", 0)
        columns = {name: [row[name]] for name in ("answer", "metadata", "task")}
        text = reply.format(row["answer"])
        assert score(prompts=[row["prompt"]], completions=[text], **columns) == [reward]
        message = [{"role": "assistant", "content": text}]
        assert score(prompts=[[]], completions=[message], **columns) == [reward]

    def test_the_whole_reply_is_never_given_to_a_verifier_that_pays_for_what_it_contains(self):
        (row,) = generate_rows("reasoning-gym:chain_sum?size=1", 0)
        columns = {name: [row[name]] for name in ("answer", "metadata", "task")}
        padded = f"{row['answer']}\nor another number"
        assert reasoning._verifier(row["task"])(padded, row) > 0, (
            "partial credit: why the answer is taken out"
        )
        assert score(completions=[padded], **columns)[0] < 0.05

    def test_a_verifier_that_raises_pays_nothing(self, monkeypatch):
        def verifier(answer, entry):
            return int(answer)

        monkeypatch.setattr(reasoning, "_verifier", lambda task: verifier)
        columns = {"answer": ["1", "1"], "metadata": [{}, {}], "task": ["any", "any"]}
        assert score(completions=["1", "no number"], **columns) == [1.0, 0.0]

    @pytest.mark.parametrize(("places", "reward"), [(4, 1.0), (6, 0.0)])
    def test_a_verifier_knows_the_arguments_of_its_task(self, places, reward):
        """decimal_arithmetic forgives one unit of the last place asked for."""
        path = f"reasoning-gym:decimal_arithmetic?size=1&max_num_decimal_places={places}"
        (row,) = generate_rows(path, 0)
        columns = {name: [row[name]] for name in ("answer", "metadata", "task")}
        near_miss = str(Decimal(row["answer"]) + Decimal("0.00005"))
        assert score(completions=[near_miss], **columns) == [reward]
