"""Train the built-in model from scratch and write it as a Hugging Face folder.

    python tools/train_builtin_model.py --out src/easerve/builtin/model

Three stages, each of which makes the next one short: the language model learns to compare words on scenes told in
words; the encoder learns to call each cell of a picture by the words of what is there; then questions about pictures
are learnt in a few hundred steps, since pictures already look like words.

One row of a batch is a prompt prefix (one or two pictures, or none) and several independent question-and-answer
branches: each branch attends to the prefix and to itself only, at the positions it would have alone. So each picture
is encoded once for many questions, and the model still only ever sees single questions. Seeded; checkpoints every
few hundred steps and goes on from the last one with --resume.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import Qwen2_5_VLForConditionalGeneration

from training.exam import evaluate
from training.folder import write_folder
from training.learner import Learner, learning_rate
from training.lessons import Lessons
from training.shape import make_config
from training.tokenizer import make_tokenizer

HELD_OUT_ROWS = 50  # of each kind in an evaluation


def train(arguments: argparse.Namespace) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    kept = arguments.out / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(kept)) if arguments.resume and kept.exists() else make_tokenizer()
    lessons = Lessons(tokenizer, arguments)
    model = Qwen2_5_VLForConditionalGeneration(make_config(tokenizer))
    learner = Learner(model, arguments.peak)
    if arguments.resume and arguments.checkpoint.exists():
        learner.load(arguments.checkpoint)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{size:,} parameters, vocabulary {tokenizer.get_vocab_size()}", flush=True)
    write_folder(arguments.out, model, tokenizer)
    started, first, losses = time.monotonic(), learner.steps, []
    while learner.steps < arguments.steps:
        loss = lessons.loss(model, learner.steps)
        learner.learn(loss, learning_rate(learner.steps, arguments.steps, arguments.peak))
        losses.append(loss.item())
        done = f"step {learner.steps}/{arguments.steps}"
        if learner.steps % 50 == 0:
            rate = (learner.steps - first) / (time.monotonic() - started)
            print(f"{done}  loss {np.mean(losses[-50:]):.4f}  {rate:.2f} steps/s", flush=True)
        if learner.steps % arguments.every == 0 or learner.steps == arguments.steps:
            scores = evaluate(model, lessons.collate, HELD_OUT_ROWS)
            print("  held out: " + "  ".join(f"{kind} {score:.1%}" for kind, score in scores.items()), flush=True)
            write_folder(arguments.out, model, tokenizer)
            learner.save(arguments.checkpoint)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model to")
    parser.add_argument("--steps", type=int, default=6000, help="optimiser steps (default: 6000)")
    parser.add_argument("--singles", type=int, default=3, help="one-picture rows a step (default: 3)")
    parser.add_argument("--pairs", type=int, default=7, help="two-picture rows a step (default: 7)")
    parser.add_argument("--told", type=int, default=2, help="rows a step with a scene in words (default: 2)")
    parser.add_argument("--words-first", type=int, default=400, help="steps of scenes in words only (default: 400)")
    parser.add_argument("--cells-first", type=int, default=500, help="then steps of naming cells (default: 500)")
    parser.add_argument("--sums", type=float, default=0.6, help="weight of sums in words (default: 0.6)")
    parser.add_argument("--peak", type=float, default=2e-3, help="peak learning rate (default: 2e-3)")
    parser.add_argument("--every", type=int, default=250, help="steps between evaluations (default: 250)")
    parser.add_argument("--threads", type=int, default=2, help="torch threads (default: 2)")
    parser.add_argument("--checkpoint", type=Path, default=Path("runs/builtin.pt"), help="where to keep the state")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    arguments = parser.parse_args()
    arguments.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    train(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
