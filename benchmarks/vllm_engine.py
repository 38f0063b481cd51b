"""What driving vLLM's core in the worker's process saves: text through our engine, and through vLLM's own AsyncLLM.

    .venv-vllm/bin/python benchmarks/vllm_engine.py --model runs/reference-model

Each runs in a process of its own (a process has one vLLM), on the cores this one may use, in turn. Processor seconds
count vLLM's own processes too, and are what a busy machine disturbs least.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from random import Random
from statistics import median
from typing import Any

import psutil

from easerve.engine.vllm.environment import prepare_environment
from easerve.workers.spec import usable_cores

TOGETHER = 32  # sequences
TOKENS = 64  # of prompt and of answer


def prompts(amount: int, seed: int) -> list[list[int]]:
    rng = Random(seed)
    return [[rng.randrange(50, 400) for _ in range(TOKENS)] for _ in range(amount)]


def ours(model: str, asked: list[list[int]]) -> tuple[float, float]:
    prepare_environment(usable_cores())
    from easerve.engine.base import NewSequence
    from easerve.engine.torch.options import EngineOptions
    from easerve.engine.vllm.start import start
    from easerve.models.registry import load_family
    from easerve.request import SamplingParams

    engine = start(load_family(model), None, EngineOptions(max_sequences=TOGETHER), {}, "cpu")
    sampling = SamplingParams(max_tokens=TOKENS, temperature=0.0, ignore_eos=True)

    def run(part: list[list[int]]) -> None:
        for number, prompt in enumerate(part):
            engine.add(NewSequence(str(number), prompt, sampling))
        while engine.has_work():
            engine.step()

    run(prompts(4, -1))
    began = _clocks()
    run(asked)
    return _since(began)


async def theirs(model: str, asked: list[list[int]]) -> tuple[float, float]:
    """As vLLM's server starts it: in processes of its own."""
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, usable_cores()))
    from vllm import AsyncEngineArgs, SamplingParams
    from vllm.v1.engine.async_llm import AsyncLLM

    from easerve.engine.vllm.start import CPU_KV_BYTES

    given: dict[str, Any] = {"limit_mm_per_prompt": {"image": 0, "video": 0}, "kv_cache_memory_bytes": CPU_KV_BYTES}
    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(model=model, max_num_seqs=TOGETHER, max_num_batched_tokens=2048, **given)
    )
    sampling = SamplingParams(max_tokens=TOKENS, temperature=0.0, ignore_eos=True, detokenize=False)

    async def one(name: str, prompt: list[int]) -> None:
        async for _ in engine.generate({"prompt_token_ids": prompt}, sampling, request_id=name):
            pass

    await asyncio.gather(*(one(f"warm {n}", prompt) for n, prompt in enumerate(prompts(4, -1))))
    began = _clocks()
    await asyncio.gather(*(one(str(n), prompt) for n, prompt in enumerate(asked)))
    spent = _since(began)
    engine.shutdown()
    return spent


def _clocks() -> tuple[float, float]:
    """Seconds by the wall, and of processor time of this process and those it started."""
    me = psutil.Process()
    return time.monotonic(), sum(sum(one.cpu_times()[:2]) for one in [me, *me.children(recursive=True)])


def _since(began: tuple[float, float]) -> tuple[float, float]:
    now = _clocks()
    return now[0] - began[0], now[1] - began[1]


def _in_a_process(which: str, arguments: argparse.Namespace, seed: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--model", arguments.model, "--sequences", str(arguments.sequences)]
    ended = subprocess.run(
        [*command, "--which", which, "--seed", str(seed)], stdout=subprocess.PIPE, text=True, check=True
    )
    wall, processor = ended.stdout.split()[-2:]
    return float(wall), float(processor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a folder, such as tools/make_reference_model.py makes")
    parser.add_argument("--sequences", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--which", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    asked = prompts(arguments.sequences, arguments.seed)
    if arguments.which == "ours":
        print(*ours(arguments.model, asked))
    elif arguments.which == "theirs":
        print(*asyncio.run(theirs(arguments.model, asked)))
    else:
        _compare(arguments)


def _compare(arguments: argparse.Namespace) -> None:
    ratios = []
    for seed in range(arguments.seeds):
        (wall, spent), (their_wall, their_spent) = (
            _in_a_process(which, arguments, seed) for which in ("ours", "theirs")
        )
        ratios.append((wall / their_wall, spent / their_spent))
        print(
            f"seed {seed}: {wall:.2f} s and {spent:.2f} s of processor; AsyncLLM {their_wall:.2f} and {their_spent:.2f}"
        )
    walls, processors = zip(*ratios, strict=True)
    print(f"ours to AsyncLLM, median: {median(walls):.2f} of the time, {median(processors):.2f} of the processor time")


if __name__ == "__main__":
    main()
