"""A tokenizer that knows the words of the scenes, learnt from questions about them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from easerve.builtin import scenes
from training.rows import rephrase

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<|video_pad|>",
)  # fmt: skip
VOCABULARY = 640


def make_tokenizer() -> Tokenizer:
    """A byte-level BPE over the words of the scenes: any text is accepted and comes back unchanged."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rng = Random("vocabulary")
    corpus = [line for _ in range(3000) for line in _corpus_lines(rng)]
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def special_id(tokenizer: Tokenizer, name: str) -> int:
    token_id: int | None = tokenizer.token_to_id(name)
    assert token_id is not None, f"the tokenizer lacks {name}"
    return token_id


def _corpus_lines(rng: Random) -> Iterator[str]:
    one, two = (scenes.random_scene(rng, held_out=False) for _ in range(2))
    questions = (
        scenes.about_one(one, rng, rng.choice(scenes.TRAINED)),
        scenes.about_two((one, two), rng, rng.choice(scenes.TRAINED)),
        scenes.small_sum(rng, held_out=False),
    )
    for question in questions:
        yield "user\n" + rephrase(question.text, rng)
        yield "assistant\n" + question.answer
