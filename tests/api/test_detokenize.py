"""Text leaves in pieces that join to the text of the whole, however the tokens fall."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

import easerve
from easerve.api.detokenize import Detokenizer, StopStrings
from easerve.api.text import TextCodec, load_codec

TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
SHORT = st.text(st.sampled_from("ab "), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def codec(tokenizer_folder: Path) -> TextCodec:
    return load_codec(tokenizer_folder)


@pytest.fixture(scope="module")
def byte_fallback() -> TextCodec:
    """A tokenizer of the other kind: words with a leading mark, and bytes that are tokens of their own."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁hello", "▁world", "lo", "▁", "a", "é"]
    tokenizer = Tokenizer(
        models.BPE({word: k for k, word in enumerate(words)}, [], unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return TextCodec(PreTrainedTokenizerFast(tokenizer_object=tokenizer))


def pieces(codec: TextCodec, ids: Sequence[int], *, skip: bool = True) -> list[str]:
    detokenizer = Detokenizer(codec, skip_special_tokens=skip)
    return [*(detokenizer.push(number) for number in ids), detokenizer.flush()]


@given(text=TEXT)
def test_any_text_comes_back_in_pieces_without_broken_characters(codec: TextCodec, text: str) -> None:
    came = pieces(codec, codec.encode(text), skip=False)
    assert "".join(came) == text
    assert "\ufffd" in text or all("\ufffd" not in piece for piece in came)


@given(ids=st.lists(st.integers(0, 400), max_size=40), skip=st.booleans())
def test_any_tokens_give_the_text_of_the_whole(codec: TextCodec, ids: list[int], skip: bool) -> None:
    visible = [number for number in ids if codec.is_visible(number, skip)]
    assert "".join(pieces(codec, ids, skip=skip)) == codec.decode(visible)


@given(words=st.lists(st.sampled_from(["▁hello", "▁world", "lo", "▁", "a", "é", "€", "😀"]), max_size=20))
def test_byte_tokens_and_word_marks_give_the_text_of_the_whole(byte_fallback: TextCodec, words: list[str]) -> None:
    vocabulary = byte_fallback._backend.get_vocab()
    ids: list[int] = []
    for word in words:
        ids += [vocabulary[word]] if word in vocabulary else [1 + byte for byte in word.encode()]
    came = pieces(byte_fallback, ids)
    assert "".join(came) == byte_fallback.decode(ids)
    assert all("\ufffd" not in piece for piece in came)


@given(ids=st.lists(st.integers(0, 262), max_size=100))
def test_broken_bytes_never_raise(byte_fallback: TextCodec, ids: list[int]) -> None:
    pieces(byte_fallback, ids)


def test_special_tokens_show_only_on_request(codec: TextCodec) -> None:
    ids = [*codec.encode("two"), *codec.encode("<|im_end|>")]
    assert "".join(pieces(codec, ids)) == "two"
    assert "".join(pieces(codec, ids, skip=False)) == "two<|im_end|>"


def test_endless_broken_bytes_do_not_wait_forever(codec: TextCodec) -> None:
    broken = codec._backend.token_to_id("ÿ")  # the byte 0xff
    assert broken is not None
    came = pieces(codec, [broken] * 200)
    assert came.count("") > 100
    assert sum(map(len, came)) == 200


def test_builtin_model_tokenizer() -> None:
    folder = Path(easerve.__file__).parent / "builtin" / "model"
    if not (folder / "tokenizer.json").is_file():
        pytest.skip("the built-in model is not there yet")
    codec = load_codec(folder)
    generator = random.Random(0)
    for _ in range(50):
        text = "".join(chr(generator.choice([65, 0xE9, 0x4E2D, 0x1F600, 32])) for _ in range(20))
        assert "".join(pieces(codec, codec.encode(text), skip=False)) == text
    ids = codec.encode_chat(
        [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "how many <|image_pad|> ?"}]}],
        add_generation_prompt=True,
    )
    assert sum(codec.token(number) == "<|image_pad|>" for number in ids) == 1


def reference(text: str, stops: Sequence[str], include: bool) -> tuple[str, str | None]:
    """Character by character: the first end of a stop string, the longest if there are several."""
    for end in range(1, len(text) + 1):
        hits = [stop for stop in stops if text[:end].endswith(stop)]
        if hits:
            longest = max(hits, key=len)
            return (text[:end] if include else text[: end - len(longest)]), longest
    return text, None


@given(
    parts=st.lists(st.text(st.sampled_from("ab "), max_size=5), max_size=10),
    stops=st.lists(SHORT, max_size=3),
    include=st.booleans(),
)
def test_stop_strings_do_not_depend_on_how_text_is_cut(parts: list[str], stops: list[str], include: bool) -> None:
    finder = StopStrings(stops, include=include)
    out = ""
    for part in parts:
        out += finder.push(part)
        if finder.found is not None:
            break
    else:
        out += finder.flush()
    assert (out, finder.found) == reference("".join(parts), stops, include)


@given(parts=st.lists(st.text(st.sampled_from("ab"), max_size=3), max_size=8), stop=SHORT)
def test_only_a_possible_start_is_held_back(parts: list[str], stop: str) -> None:
    finder = StopStrings([stop])
    text = out = ""
    for part in parts:
        text += part
        out += finder.push(part)
        if finder.found is not None:
            return
        held = text[len(out) :]
        assert text.startswith(out)
        assert stop.startswith(held)
        assert len(held) < len(stop)
