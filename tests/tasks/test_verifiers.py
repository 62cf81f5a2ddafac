"""Rewards by rule, case by case."""

from __future__ import annotations

import pytest

from taut.config.reward import VERIFIERS
from taut.tasks import verifiers


def given(verifier, gold, reply):
    (score,) = verifier([reply], answer=[gold], data_source=["any column"])
    assert type(score) is float
    (as_messages,) = verifier([[{"role": "assistant", "content": reply}]], answer=[gold])
    assert as_messages == score
    return score


@pytest.mark.parametrize(
    ("gold", "reply", "score"),
    [
        ("1234", "$1,234.00", 1),
        ("1234", "1,234.", 1),
        ("1234", "234", 0),
        ("1234", "1,2345", 0),
        (1234, "1.234e3", 1),
        ("1,234", "1234", 1),
        ("7", "+7", 1),
        ("7", "-7", 0),
        ("-7", "-7", 1),
        ("-7", "−7", 1),
        ("-7", "-$7.00", 1),
        ("-7", "$-7", 1),
        ("-7", "7", 0),
        ("7", "10-3 = 7", 1),
        ("0", "-0", 1),
        ("0.5", ".5", 1),
        ("5", ".5", 0),
        ("694", "3 dozen is 36, so the total is $694", 1),
        ("36", "3 dozen is 36, so the total is $694", 0),
        ("7", "The answer is 7 apples.", 1),
        ("12", "12cm", 1),
        ("42", "#### 42" + "\n" + "because I say so, " * 27, 1),
        ("42", "#### 42\nor was it 43", 1),
        ("42", "#### 41\nno, 42", 0),
        ("42", "<answer>42</answer> of 50", 1),
        ("42", "<answer> 42 </answer>", 1),
        ("1234", r"\boxed{1{,}234}", 1),
        ("5", r"\boxed{\$5}", 1),
        # Hedges, and tags that disagree.
        ("42", "41 or 42", 0),
        ("42", "41, 42", 0),
        ("42", "41, or 42", 0),
        ("42", "between 41 and 42", 0),
        ("42", "84/42", 0),
        ("42", "#### 41 or 42", 0),
        ("42", r"\boxed{41} \boxed{42}", 0),
        ("42", r"\boxed{42} \boxed{41}", 0),
        ("42", r"\boxed{42}, that is \boxed{42.0}", 1),
        ("42", r"<answer>41</answer> \boxed{42}", 0),
        # Nothing to compare.
        ("42", "", 0),
        ("42", "forty-two", 0),
        ("42", r"\boxed{} 42", 0),
        ("forty-two", "forty-two", 0),
        ("", "", 0),
        (None, "None", 0),
        # GSM8K's own column.
        ("3 + 4 = <<3+4=7>>7\n#### 7", "7", 1),
        ("3 + 4 = <<3+4=7>>7\n#### 7", "4", 0),
    ],
)
def test_numeric(gold, reply, score):
    assert given(verifiers.numeric, gold, reply) == score


@pytest.mark.parametrize(
    ("gold", "reply", "score"),
    [
        ("B", "B", 1),
        ("B", "b", 1),
        ("B", "(B)", 1),
        ("b", "B.", 1),
        ("B", "The answer is (B).", 1),
        ("B", "A is tempting.\nStill, the answer is B", 1),
        ("B", "It is A or B", 0),
        ("B", "C", 0),
        ("B", "<answer>B</answer>, not A", 1),
        ("B", r"\boxed{A} \boxed{B}", 0),
        ("B", "Bananas", 0),
        ("B", "", 0),
        ("no choice", "no choice", 0),
    ],
)
def test_choice(gold, reply, score):
    assert given(verifiers.choice, gold, reply) == score


@pytest.mark.parametrize(
    ("gold", "reply", "score"),
    [
        (r"\frac{63}{400}", r"\boxed{\frac{64}{400}}", 0),
        (r"\frac{63}{400}", r"\boxed{\frac{63}{400}}", 1),
        (r"\frac{63}{400}", r"\boxed{0.1575}", 1),
        (r"$\frac{63}{400}$", "So it is\n$63/400$", 1),
        ("1234", "$1,234.00", 1),
        ("1234", "234", 0),
        ("7", "+7", 1),
        ("7", "-7", 0),
        ("0", "-0", 1),
        ("x^2+1", r"\boxed{1+x^2}", 1),
        (r"\sqrt{8}", r"<answer>2\sqrt{2}</answer>", 1),
        ("2", r"\boxed{1} or \boxed{2}", 0),
        ("2", r"\boxed{2} or \boxed{1}", 0),
        ("2", r"\boxed{2}, as I said: \boxed{2}", 1),
        ("2", "", 0),
        (r"\frac{", r"\boxed{\frac{}", 0),
        ("", r"\boxed{}", 0),
        ("???", "???", 0),
    ],
)
def test_math(gold, reply, score):
    pytest.importorskip("math_verify")
    assert given(verifiers.math, gold, reply) == score


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("<think>hm</think>7", 1),
        ("<think>\nhm\n</think>\n7\n", 1),
        ("<think></think>", 1),
        ("hm <think>hm</think>7", 0),
        ("<think>hm", 0),
        ("<think>a</think><think>b</think>7", 0),
        ("7", 0),
    ],
)
def test_think_format(reply, score):
    assert verifiers.think_format([reply]) == [score]


def test_all_can_be_named():
    for name in VERIFIERS:
        assert name == "exact-match" or callable(getattr(verifiers, name.replace("-", "_")))
