"""`BART` in folders of BART and mBART: logits and texts equal to Hugging Face's."""

import json

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import models, text
from kerasseq.training import Denoising

pytestmark = pytest.mark.once("the peers are written in PyTorch")

V, T = 29, 13
PADDING, END = 1, 2
SIZES = {
    **{"vocab_size": V, "d_model": 12, "encoder_layers": 2, "decoder_layers": 3},
    **{"encoder_attention_heads": 3, "decoder_attention_heads": 3},
    **{"encoder_ffn_dim": 17, "decoder_ffn_dim": 17, "max_position_embeddings": T},
}
CONFIGS = {
    "bart": {},
    "bart-scaled": {"scale_embedding": True, "activation_function": "relu"},
    "mbart": {"scale_embedding": True, "decoder_start_token_id": 5},
    "mbart-barthez": {"scale_embedding": True, "decoder_start_token_id": END},
}
CLASSES = {"bart": "Bart", "mbart": "MBart"}
OURS = {
    **{"vocabulary_size": V, "num_layers": 1, "num_heads": 2, "hidden_dim": 10},
    **{"intermediate_dim": 17, "max_sequence_length": T, "num_decoder_layers": 2},
}
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def pairs(start=END):
    """Sources and inputs of the decoder, some shorter than others."""
    rng = np.random.default_rng(0)
    source, target = rng.integers(3, V, (3, 11)), rng.integers(3, V, (3, 7))
    source[:, 0], target[:, 0] = 0, start
    source[1, 7:], target[2, 4:] = PADDING, PADDING
    return source.astype("int32"), target.astype("int32")


def array(x):
    return keras.ops.convert_to_numpy(x)


def shuffle(model, seed=0):
    """Random weights; norms with factors near 1, and a bias of the logits."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        if weight.dtype == "float32":
            base = 1.0 if weight.name == "gamma" else 0.0
            weight.assign(base + 0.5 * rng.normal(size=weight.shape))
    return model


def logits_of(torch, model, source, target):
    """Logits of a model of Hugging Face."""
    ids, read, prefix = (torch.tensor(x) for x in (source, source != PADDING, target))
    with torch.no_grad():
        found = model.eval()(ids, attention_mask=read, decoder_input_ids=prefix)
    return found.logits.cpu().numpy()


@pytest.fixture(scope="module")
def torch():
    if keras.backend.backend() != "torch":
        pytest.skip("the weights are tensors of PyTorch")
    return pytest.importorskip("torch")


def theirs(torch, name, **more):
    """A model of Hugging Face with random weights, and its class."""
    kind = name.partition("-")[0]
    modules = f"transformers.models.{kind}"
    config = pytest.importorskip(f"{modules}.configuration_{kind}")
    cls = getattr(
        pytest.importorskip(f"{modules}.modeling_{kind}"),
        f"{CLASSES[kind]}ForConditionalGeneration",
    )
    torch.manual_seed(0)
    config = getattr(config, f"{CLASSES[kind]}Config")
    model = cls(config(**SIZES, **{**CONFIGS[name], **more}))
    for path, weight in model.named_parameters():
        is_scale = "norm" in path and path.endswith("weight")
        torch.nn.init.normal_(weight, mean=float(is_scale), std=0.5)
    model.final_logits_bias.normal_()
    model.final_logits_bias[:, [0, 1, 2, 5]] -= 99  # others are written
    return model, cls


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_targets_are_theirs(torch, name, tmp_path):
    model, cls = theirs(torch, name)
    start = CONFIGS[name].get("decoder_start_token_id", END)
    source, target = pairs(start)
    expected = logits_of(torch, model, source, target)
    if name == "bart":
        model.generation_config.forced_bos_token_id = 0
    model.save_pretrained(tmp_path / "theirs")
    ours = models.from_pretrained(tmp_path / "theirs")
    assert ours.first_id == (0 if name == "bart" else None)
    found = array(ours([source, target]))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    models.save_pretrained(ours, tmp_path / "ours")
    again, info = cls.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info.values())
    found = logits_of(torch, again, source, target)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    ids, read = torch.tensor(source), torch.tensor(source != PADDING)
    options = {"max_new_tokens": 9, "do_sample": False, "num_beams": 1}
    written = again.generate(ids, attention_mask=read, **options).tolist()
    rows = [row[row != PADDING] for row in source]
    generated = ours.generate(rows, max_new_tokens=9)
    assert [ids.tolist() for ids in generated] == [row[1:] for row in written]
    assert len({tuple(row) for row in written}) > 1  # the source matters


@pytest.mark.everywhere("weights and files of a new model")
def test_a_folder_and_a_file(tmp_path):
    model = shuffle(models.BART(**OURS, norm_placement="pre", first_id=7))
    models.save_pretrained(model, tmp_path / "folder")
    same = models.from_pretrained(tmp_path / "folder")
    source, target = pairs()
    expected = array(model([source, target]))
    np.testing.assert_allclose(array(same([source, target])), expected, atol=1e-5)
    model.save(tmp_path / "model.keras")
    saved = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(array(saved([source, target])), expected, atol=1e-5)


def test_generation_without_a_cache_and_without_padding():
    model = shuffle(models.BART(**OURS, norm_placement="pre", first_id=7))
    source, target = pairs()
    alone = array(model([source[1:2, :7], target[1:2]]))
    padded = array(model([source, target]))
    np.testing.assert_allclose(alone[0], padded[1], atol=1e-5)
    written = np.full((1, 1), END)
    for n in range(6):
        scores = array(model([source[:1], written]))[0, -1]
        scores[PADDING] = -np.inf  # which no target has
        best = scores.argmax() if n else 7
        written = np.append(written, [[best]], axis=1)
    written = written[0].tolist()[1:]
    written = written[: written.index(END)] if END in written else written
    assert model.generate([source[0]], max_new_tokens=6)[0].tolist() == written


def test_texts_get_their_first_and_last_ids_and_padding_is_not_learned(tmp_path):
    texts = ["to be or not to be", "that is", "not to be"]
    tokenizer = text.BytePairTokenizer(270, special_tokens=SPECIAL).fit(texts)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8}
    model = models.BART(tokenizer, **sizes)
    (source, target), wanted = model.arrays(texts, texts)
    ids = tokenizer.encode(texts[1]).tolist()
    count = len(ids)
    assert source[1, : count + 3].tolist() == [0, *ids, 2, 1]
    assert target[1, : count + 3].tolist() == [2, 0, *ids, 1]
    assert wanted[1, : count + 3].tolist() == [0, *ids, 2, 1]
    assert model.target_vocabulary.decode(wanted[1]) == texts[1]
    loss = model.evaluate(texts[1:2], texts[1:2], verbose=0)[0]
    padded = (source[1:2], target[1:2]), wanted[1:2]
    assert model.evaluate(*padded, verbose=0)[0] == pytest.approx(loss, rel=1e-5)
    noise = Denoising(["infill"], tokenizer=tokenizer, rate=0.5)
    (source, target), wanted = noise.batches(model, texts, batch_size=3).batch(0)
    assert np.all(source[:, 0] == 0) and np.all(target[:, :2] == [2, 0])
    assert np.all((source == 2).sum(axis=1) == 1)
    assert tokenizer.id_of("<mask>") in source and np.all(source[:, -1] == PADDING)
    models.save_pretrained(model, tmp_path)
    same = models.from_pretrained(tmp_path)
    assert same.translate("to be", max_length=5).text == (
        model.translate("to be", max_length=5).text
    )


def test_a_language_begins_the_target_of_mbart():
    model = shuffle(models.BART(**OURS, norm_placement="pre", start_id=11))
    _, target = model.encode([[0, 5, 2, 12]], [[6, 2]])
    assert target.tolist() == [[11, 6, 2]]
    assert model.never_written == (1, 11)


def test_what_is_not_built(tmp_path):
    models.save_pretrained(models.BART(**OURS), tmp_path / "bart")
    path = tmp_path / "bart" / "config.json"
    settings = json.loads(path.read_text())
    for name, value in (
        ("pad_token_id", 0),
        ("normalize_before", True),
        ("tie_word_embeddings", False),
        ("decoder_ffn_dim", 5),
        ("activation_function", "swish"),
        ("decoder_start_token_id", V),
    ):
        path.write_text(json.dumps({**settings, name: value}))
        with pytest.raises(ValueError, match=f"config.json: {name} = {value!r}, but"):
            models.from_pretrained(tmp_path / "bart")
    with pytest.raises(ValueError, match="feed_forward='swiglu'"):
        models.save_pretrained(
            models.BART(**OURS, feed_forward="swiglu"), tmp_path / "new"
        )
    with pytest.raises(ValueError, match='can be written in the form "huggingface"'):
        models.save_pretrained(models.BART(**OURS), tmp_path / "new", "keras_hub")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocabulary_size": 2}, "vocabulary_size must be .* received 2"),
        ({"vocabulary_size": None}, "expected either tokenizer, .* or vocabulary_size"),
        ({"start_id": V}, f"start_id must be an id, below {V}, received {V}"),
        ({"first_id": V}, f"first_id must be an id, below {V}, received {V}"),
        ({"norm_placement": "deep"}, "norm_placement"),
        ({"num_heads": 3}, "num_heads"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        models.BART(**{**OURS, **options})


def test_wrong_tokenizers_and_long_texts():
    letters = text.CharacterTokenizer().fit("abc")
    with pytest.raises(ValueError, match="first tokens of tokenizer must be <s>"):
        models.BART(letters)
    model = models.BART(**OURS)
    with pytest.raises(ValueError, match="source 0 must have at most 13 tokens"):
        model.generate([range(3, 17)])
