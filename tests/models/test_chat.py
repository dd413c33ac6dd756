"""`Chat`: its answers are those of `generate`, with probabilities beside each token."""

import keras
import numpy as np
import pytest

from kerasseq import models, text
from tests.models.test_answer_rows import conversations, gpt, tokenizer

pytestmark = pytest.mark.once("the same on all backends")


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


@pytest.mark.everywhere
def test_tokens_and_probabilities_are_those_of_the_model():
    keras.utils.set_random_seed(3)
    model = gpt(max_sequence_length=23)
    chat = models.Chat(model, "a model", max_new_tokens=5, num_best=3)
    prompt = chat.prompt("where is Ben?")
    assert prompt == "<|system|>a model<|user|>where is Ben?<|assistant|>"
    pieces = list(chat.stream("where is Ben?"))
    before = model.tokenizer.encode(prompt).tolist()
    ids = [*before, *(model.tokenizer.id_of(piece.token) for piece in pieces)]
    logits = keras.ops.convert_to_numpy(model(np.array([ids[:-1]])))[0]
    for piece, row in zip(pieces, logits[len(before) - 1 :], strict=True):
        p = softmax(row.astype("float64"))
        chosen = model.tokenizer.id_of(piece.token)
        assert chosen == p.argmax()  # greedy
        np.testing.assert_allclose(piece.probability, p[chosen], rtol=1e-4)
        names, values = zip(*piece.best, strict=True)
        best = np.argsort(-p)[:3]
        assert [model.tokenizer.id_of(name) for name in names] == best.tolist()
        np.testing.assert_allclose(values, p[best], rtol=1e-4)
    whole = model.generate(prompt, 5, temperature=0, stop="<|end|>")
    assert model.tokenizer.decode(ids) == whole


def test_the_conversation_is_read_again_and_cut_at_the_front():
    model = gpt(max_sequence_length=30)
    chat = models.Chat(model, "a model", max_new_tokens=3)
    chat.messages += conversations()[0] + conversations()[1]
    assert "where is Ben?" in chat.prompt("why?")  # 27 tokens
    chat.max_new_tokens = 4
    prompt = chat.prompt("why?")
    assert prompt.startswith("<|system|>a model<|user|>who are you?<|assistant|>")
    assert len(chat.messages) == 5  # nothing is forgotten, only not read
    longest = "why " * 25 + "?"  # and 5 more tokens
    with pytest.raises(ValueError, match="must leave room for an answer in the 30"):
        chat.ask(longest)
    chat.ask("why " * 22 + "?")  # an answer of two tokens


def test_what_is_read_is_found_once_for_a_message(monkeypatch):
    model = gpt(max_sequence_length=30)
    chat, counted, encode = models.Chat(model), [], model.tokenizer.encode
    chat.messages += conversations()[0] + conversations()[1]
    monkeypatch.setattr(
        model.tokenizer, "encode", lambda text: counted.append(text) or encode(text)
    )
    messages, before = chat.read("why?"), len(counted)
    assert messages[-1]["content"] == "why?" and chat.prompt("why?").count("why?") == 1
    chat.stream("why?").close()
    assert len(counted) == before > 0
    chat.messages.clear()
    assert chat.read("why?") == messages[-1:] and len(counted) > before


def test_answers_are_added_as_far_as_they_were_read():
    model = gpt(hidden_dim=17, max_sequence_length=40)
    model.compile(keras.optimizers.Adam(3e-2))
    model.fit(conversations(), epochs=40, verbose=0)
    chat = models.Chat(model)
    assert chat.ask("where is Ben?") == "in Lyon."
    assert chat.messages[-1] == {"role": "assistant", "content": "in Lyon."}
    pieces = models.Chat(model).stream("where is Ben?")
    parts = [next(pieces).text, next(pieces).text]
    pieces.close()
    assert parts == ["in", " Lyon"]
    ended = [piece.token for piece in models.Chat(model).stream("why?")]
    assert ended[-1] == "<|end|>" and len(ended) == 6
    empty = models.Chat(model, max_new_tokens=1)
    empty.stop = [model.tokenizer.id_of("in")]
    assert empty.ask("where is Ben?") == "" and empty.messages == []


def test_seeds_draw_the_same_answers():
    model = gpt(max_sequence_length=40)
    options = {"temperature": 1.0, "max_new_tokens": 7}
    first, second = (models.Chat(model, seed=3, **options) for _ in range(2))
    both = [[chat.ask(q) for q in ("why?", "why?")] for chat in (first, second)]
    assert both[0] == both[1]
    other = models.Chat(model, seed=4, **options)
    assert [other.ask(q) for q in ("why?", "why?")] != both[0]


def test_characters_of_several_bytes_come_whole():
    template = text.ChatTemplate(user="q", assistant="a", system="s", end="\n")
    bytes_alone = text.BytePairTokenizer(256).fit("é")
    bytes_alone.chat_template = template
    model = models.LanguageModel("gru", bytes_alone, units=32)
    model.compile(keras.optimizers.Adam(3e-2))
    talk = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "éж"}]
    model.fit([talk], epochs=40, verbose=0)
    pieces = [piece.text for piece in models.Chat(model).stream("x")]
    assert pieces == ["", "é", "", "ж", ""]


def test_wrong_chats():
    model = gpt()
    with pytest.raises(TypeError, match="must be a decoder-only language model"):
        models.Chat(tokenizer())
    with pytest.raises(ValueError, match="must choose one token after the other"):
        models.Chat(model, sampler="beam")
    with pytest.raises(ValueError, match="max_new_tokens"):
        models.Chat(model, max_new_tokens=0)
    with pytest.raises(ValueError, match="content must not be empty"):
        models.Chat(model).ask("")
    with pytest.raises(TypeError, match="content must be a string"):
        models.Chat(model).ask(3)
    with pytest.raises(TypeError, match=r"temprature.*temperature"):
        models.Chat(model, temprature=1.0)
    model.tokenizer.chat_template = None
    with pytest.raises(ValueError, match="messages need the chat template"):
        models.Chat(model)


def test_messages_where_none_are_read():
    model, talk = gpt(max_sequence_length=30), conversations()[0]
    with pytest.raises(TypeError, match=r"received messages.*Chat\(model\)\.ask\(text"):
        model.generate(talk, 3)
    with pytest.raises(TypeError, match=r"stand in a list of them, as in \[messages"):
        model.fit(talk)
