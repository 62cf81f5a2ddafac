"""One start mark, no end mark, and the template's own words."""

from __future__ import annotations

import pytest
from tokenizers.processors import TemplateProcessing

from taut.models.tiny import character_tokenizer
from taut.models.tokens import check_messages, encode, observation_ids, render_chat, render_reply

BOS, END, A, B = 0, 1, 2, 3
USER = {"role": "user", "content": "a"}
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{{ '(' if m.role == 'user' else '[' }}{{ m.content }}{{ ')' if m.role == 'user' else ']' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[' }}{% endif %}"
)


@pytest.fixture
def make_tokenizer():
    """(what is put around a text, chat template) -> a tokenizer of one character a token; < is its BOS."""

    def make(around="$A", template=TEMPLATE):
        tokenizer = character_tokenizer("<;ab()[]", ";")
        tokenizer.bos_token = "<"
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=around, special_tokens=[("<", BOS), (";", END)]
        )
        tokenizer.chat_template = template
        return tokenizer

    return make


@pytest.mark.parametrize(
    ("around", "text", "ids"),
    [
        ("$A", "ab", (A, B)),
        ("< $A", "ab", (BOS, A, B)),
        ("< $A", "<ab", (BOS, A, B)),  # the text brings its BOS: the known double
        ("< $A ;", "ab", (BOS, A, B)),  # as BERT's and some Llamas' tokenizers
        ("$A ;", "ab", (A, B)),  # as T5's
        ("< $A ;", "<ab", (BOS, A, B)),
        ("< < $A", "ab", (BOS, BOS, A, B)),  # GLM puts two marks before a text
        ("< < $A", "<<ab", (BOS, BOS, A, B)),
        ("$A", "<ab", (BOS, A, B)),
        ("$A ;", "ab;", (A, B, END)),  # an end mark that the user wrote stays
        ("< $A", "<", (BOS,)),
    ],
)
def test_marks_stand_once_before_a_prompt_and_never_behind_it(make_tokenizer, around, text, ids):
    assert encode(make_tokenizer(around), text, "row 1") == ids


@pytest.mark.parametrize("around", ["$A", "< $A", "< $A ;"])
@pytest.mark.parametrize("template", [TEMPLATE, "{{ bos_token }}" + TEMPLATE])
def test_a_conversation_has_one_bos_whoever_writes_it(make_tokenizer, around, template):
    tokenizer = make_tokenizer(around, template)
    ids = encode(tokenizer, render_chat(tokenizer, [USER], "row 1"), "row 1")
    wanted = int("<" in around or "bos" in template)
    assert ids.count(BOS) == wanted
    assert ids[wanted:] == (4, A, 5, 6)  # (a)[


def test_a_mark_that_opens_every_turn_is_kept(make_tokenizer):
    """ChatML's `<|im_start|>` is some models' BOS and stands before each message."""
    tokenizer = make_tokenizer("< $A", "{% for m in messages %}{{ '<' }}{{ m.content }}{% endfor %}")
    text = render_chat(tokenizer, [USER, {"role": "user", "content": "b"}], "row 1")
    assert encode(tokenizer, text, "row 1") == (BOS, A, BOS, B)


def test_the_model_speaks_next_or_goes_on_from_a_prefix(make_tokenizer):
    tokenizer = make_tokenizer()
    assert render_chat(tokenizer, [USER], "row 1") == "(a)["
    assert render_chat(tokenizer, [USER, {"role": "assistant", "content": "b"}], "row 1") == "(a)[b"
    turns = [USER, {"role": "assistant", "content": "b"}, USER]
    assert render_chat(tokenizer, turns, "row 1") == "(a)[b](a)["


def test_a_reply_is_what_the_template_writes_behind_its_prompt(make_tokenizer):
    reply = {"role": "assistant", "content": "b"}
    assert render_reply(make_tokenizer(), [USER], [reply], "row 1") == "b]"
    assert render_reply(make_tokenizer(), [USER], [reply, USER, reply], "row 1") == "b](a)[b]"


def test_a_template_that_rewrites_its_prompt_is_refused(make_tokenizer):
    forgetful = "{% for m in messages[-1:] %}{{ m.content }}{% endfor %}"
    with pytest.raises(
        ValueError, match=r"row 1: .* otherwise once a reply follows it: write the completion as text"
    ):
        render_reply(
            make_tokenizer(template=forgetful), [USER], [{"role": "assistant", "content": "b"}], "row 1"
        )


def test_what_a_template_refuses_is_named(make_tokenizer):
    with pytest.raises(ValueError, match=r"row 3: the model's chat template refuses the messages: no system"):
        render_chat(make_tokenizer(), [{"role": "system", "content": "a"}, USER], "row 3")


def test_a_model_without_a_template_takes_no_conversation(make_tokenizer):
    with pytest.raises(ValueError, match=r"row 3 is a conversation, and .* has no chat template"):
        render_chat(make_tokenizer(template=None), [USER], "row 3")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "p must be text or a list of messages, not int"),
        ([], "p must be text or a list of messages, not an empty list"),
        ([USER, "b"], "p: message 2 must be an object with role and content, not 'b'"),
        ([{"content": "b"}], "p: message 1 must be an object with role and content"),
        ([{"role": "user", "content": None}], "p: the content of message 1 must be text, not NoneType"),
    ],
)
def test_what_is_no_conversation_is_named(value, message):
    with pytest.raises(ValueError, match=message):
        check_messages(value, "p")


def test_text_the_tokenizer_cannot_write_is_shown(make_tokenizer):
    with pytest.raises(ValueError, match=r"row 1: the model's tokenizer cannot encode 'hello'"):
        encode(make_tokenizer(), "hello", "row 1")


@pytest.mark.parametrize("around", ["$A", "< $A ;"])
def test_an_empty_prompt_is_refused(make_tokenizer, around):
    with pytest.raises(ValueError, match="row 1 is empty: a prompt needs at least one token"):
        encode(make_tokenizer(around), "", "row 1")


def text_of(tokenizer, ids):
    return tokenizer.decode(ids)


QUESTION = [{"role": "user", "content": "1+1"}]
OBSERVED = [{"role": "tool", "content": "2"}]


def test_what_a_template_writes_between_two_turns(chat_tokenizer):
    """The model sampled `<|im_end|>`; the line break behind it is the template's."""
    end = chat_tokenizer.eos_token_id
    ids = observation_ids(chat_tokenizer, QUESTION, OBSERVED, [end], "row 1")
    wanted = "\n<|im_start|>tool\n2<|im_end|>\n<|im_start|>assistant\n"
    assert text_of(chat_tokenizer, ids) == wanted
    assert ids == tuple(chat_tokenizer.encode(wanted))
    conversation = [*QUESTION, {"role": "assistant", "content": "sum 1 1"}, *OBSERVED]
    whole = chat_tokenizer.encode(render_chat(chat_tokenizer, conversation, "row 1"))
    prompt = chat_tokenizer.encode(render_chat(chat_tokenizer, QUESTION, "row 1"))
    turn = chat_tokenizer.encode("sum 1 1<|im_end|>")
    assert whole == [*prompt, *turn, *ids], "as if the conversation were rendered in one piece"


def test_text_in_a_conversation_is_the_users(chat_tokenizer):
    ends = [chat_tokenizer.eos_token_id]
    as_text, as_messages = (
        observation_ids(chat_tokenizer, QUESTION, told, ends, "row 1")
        for told in ("no", [{"role": "user", "content": "no"}])
    )
    assert as_text == as_messages
    assert text_of(chat_tokenizer, as_text).startswith("\n<|im_start|>user\nno<|im_end|>")


def test_a_prompt_that_opens_the_models_turn_makes_no_difference(chat_tokenizer):
    ends = [chat_tokenizer.eos_token_id]
    prefilled = [*QUESTION, {"role": "assistant", "content": "it is "}]
    assert observation_ids(chat_tokenizer, prefilled, OBSERVED, ends, "row 1") == observation_ids(
        chat_tokenizer, QUESTION, OBSERVED, ends, "row 1"
    )


def test_a_template_that_writes_the_last_turn_otherwise_still_has_its_text_behind(chat_tokenizer):
    """Qwen3's writes an empty thought before the last turn alone."""
    chat_tokenizer.chat_template = chat_tokenizer.chat_template.replace(
        "m.content", "('think' if loop.last and m.role == 'assistant' else '') + m.content"
    )
    ids = observation_ids(chat_tokenizer, QUESTION, OBSERVED, [chat_tokenizer.eos_token_id], "row 1")
    assert text_of(chat_tokenizer, ids) == "\n<|im_start|>tool\n2<|im_end|>\n<|im_start|>assistant\n"


def test_a_model_that_ends_its_turn_with_a_mark_that_the_template_lacks(make_tokenizer):
    """What the template writes at the end of a turn is then all still to come."""
    tokenizer = make_tokenizer()
    assert text_of(tokenizer, observation_ids(tokenizer, [USER], [USER], [END], "row 1")) == "](a)["


@pytest.mark.parametrize(
    ("part", "other", "message"),
    [
        ("m.content", "m.content[:3]", "does not write a turn of the model's as it stands"),
        ("m.content", "m.content + m.content", "does not write a turn of the model's as it stands"),
        (
            "'<|im_end|>'",
            "('<|im_end|>' if loop.last else '')",
            "ends a turn otherwise once messages follow it",
        ),
        ("m.content", "(raise_exception('no tools') if m.role == 'tool' else m.content)", "no tools"),
    ],
)
def test_a_template_that_allows_no_several_turns_is_refused(chat_tokenizer, part, other, message):
    chat_tokenizer.chat_template = chat_tokenizer.chat_template.replace(part, other)
    with pytest.raises(ValueError, match=f"row 1: .*{message}"):
        observation_ids(chat_tokenizer, QUESTION, OBSERVED, [chat_tokenizer.eos_token_id], "row 1")


def test_plain_text_goes_on_with_plain_text(make_tokenizer):
    tokenizer = make_tokenizer("< $A ;")
    assert observation_ids(tokenizer, None, "ab", [END], "row 1") == (A, B), "no mark before it or behind"
    assert observation_ids(tokenizer, None, "", [END], "row 1") == ()
    with pytest.raises(ValueError, match="row 1: the prompt is plain text"):
        observation_ids(tokenizer, None, [USER], [END], "row 1")
    with pytest.raises(ValueError, match="row 1: the model's tokenizer cannot encode 'hello'"):
        observation_ids(tokenizer, None, "hello", [END], "row 1")
