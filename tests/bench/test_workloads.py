"""Requests: the same for one seed, without a common picture for two, and shaped as described."""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

from easerve.bench.request import BodyStyle, Request, body
from easerve.bench.workloads import NAMED, Workload, read_workload
from easerve.errors import BadRequest

SMALL = {
    "random-mm": ["bucket_config={(56, 64, 1): 0.5, (72, 56, 1): 0.5}"],
    "text-only": [],
    "repeated-media": [],
    "audio": ["longest=4"],
}


def small(name: str) -> Workload:
    return read_workload(name, SMALL.get(name, ["size=56x64"]))


def draw(workload: Workload, number: int, seed: object = 0) -> list[Request]:
    return list(islice(workload.requests(Random(str(seed))), number))


def pictures(requests: list[Request]) -> list[str]:
    """Pixels of every picture, in order."""
    found = []
    for request in requests:
        for message in request.messages:
            if isinstance(message["content"], list):
                found += [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
    return [image(url).tobytes().hex() for url in found]


def image(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


@pytest.mark.parametrize("name", NAMED)
def test_a_seed_decides_everything_and_two_seeds_share_no_picture(name: str) -> None:
    workload = small(name)
    first, again, other = draw(workload, 12), draw(workload, 12), draw(workload, 12, seed=1)
    assert first == again
    assert first != other
    assert not set(pictures(first)) & set(pictures(other))


@pytest.mark.parametrize("name", set(NAMED) - {"repeated-media", "multi-turn"})
def test_no_picture_comes_twice_unless_asked(name: str) -> None:
    found = pictures(draw(small(name), 30))
    assert len(set(found)) == len(found)


def test_mixed_has_its_share_of_text_alone() -> None:
    kinds = Counter(
        request.modality for request in draw(read_workload("mixed", ["size=56", "images=1", "text_share=0.25"]), 800)
    )
    assert kinds["text"] / 800 == pytest.approx(0.25, abs=0.05)


def test_repeated_media_follow_zipf() -> None:
    found = Counter(pictures(draw(read_workload("repeated-media", ["size=56", "pictures=10", "zipf=1"]), 3000)))
    ranked = [number for _, number in found.most_common()]
    assert len(ranked) == 10
    assert ranked[0] / ranked[1] == pytest.approx(2, rel=0.15)
    assert ranked[0] / ranked[9] == pytest.approx(10, rel=0.3)


def test_every_turn_resends_what_went_before() -> None:
    requests = draw(read_workload("multi-turn", ["size=56", "conversations=1", "turns=3", "images=2"]), 6)
    assert [request.media for request in requests] == [2, 4, 6, 2, 4, 6]
    assert list(requests[2].messages[: len(requests[1].messages)]) == list(requests[1].messages)
    assert not set(pictures(requests[:1])) & set(pictures(requests[3:4]))


def test_random_mm_draws_as_its_parameters_say() -> None:
    workload = read_workload(
        "random-mm",
        [
            "base_items_per_request=3", "num_mm_items_range_ratio=0.5", "limit_mm_per_prompt={'image': 4}",
            "bucket_config={(16, 24, 1): 0.75, (24, 16, 1): 0.25, (9, 9, 16): 0}",
            "input_len=20", "range_ratio=0.5", "prefix_len=5", "output_len=8",
        ],
    )  # fmt: skip
    requests = draw(workload, 800)
    items = Counter(request.media for request in requests)
    assert set(items) == {1, 2, 3, 4}  # 5 is clamped to the limit
    assert items[4] / 800 == pytest.approx(0.4, abs=0.06)
    parts = [request.messages[0]["content"] for request in requests]
    urls = [part["image_url"]["url"] for content in parts for part in content[:-1]]
    sizes = Counter(image(url).size for url in urls)
    assert sizes[(24, 16)] / sum(sizes.values()) == pytest.approx(0.75, abs=0.05)
    lengths = [len(content[-1]["text"].split()) for content in parts]
    assert (min(lengths), max(lengths)) == (15, 35)
    assert {request.output_tokens for request in requests} == set(range(4, 13))


def test_yaml_builds_on_a_name_and_settings_win(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("base: image-heavy\nimages: 3\nsize: 56x84\nwords: 5\n")
    request = draw(read_workload(str(file), ["words=6"]), 1)[0]
    content: Any = request.messages[0]["content"]
    assert [part["type"] for part in content] == ["image_url"] * 3 + ["text"]
    assert image(content[0]["image_url"]["url"]).size == (56, 84)
    assert len(content[-1]["text"].split()) == 6


@pytest.mark.parametrize(
    ("given", "settings", "says"),
    [
        ("image-heavier", [], "image-heavy"),
        ("image-heavy", ["pictures=3"], "fields: images"),
        ("image-heavy", ["images"], "field=value"),
        ("image-heavy", ["size=0"], "greater than or equal to 1"),
        ("random-mm", ["bucket_config={(16, 99999, 1): 1}"], "less than or equal"),
        ("random-mm", ["bucket_config={(16, 16, 8): 1}"], "several frames"),
    ],
)
def test_faults_say_what_would_do(given: str, settings: list[str], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        read_workload(given, settings)


def test_own_requests_come_from_lines_and_folders(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "b.png")
    (tmp_path / "b.txt").write_text("What is this?\n")
    lines = tmp_path / "requests.jsonl"
    whole = {"model": "x", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "top_p": 0.5}
    lines.write_text(json.dumps({"prompt": "see", "images": ["a.png"], "output_tokens": 3}) + "\n" + json.dumps(whole))
    short, full = draw(read_workload(str(lines)), 5)  # each once
    assert (short.modality, short.output_tokens) == ("image", 3)
    sent = json.loads(body(full, BodyStyle(model="m")))
    assert (sent["model"], sent["max_tokens"], sent["top_p"], sent["stream"]) == ("m", 5, 0.5, True)
    folder = draw(read_workload(str(tmp_path), ["repeat=true"]), 3)
    assert [request.messages[0]["content"][-1]["text"] for request in folder[:2]] == [
        "Describe the picture.",
        "What is this?",
    ]
    assert folder[2] == folder[0]
    lines.write_text('{"prompt": "a"}\n{"question": "b"}\n')
    with pytest.raises(BadRequest, match="line 2"):
        draw(read_workload(str(lines)), 1)
    lines.write_text('{"prompt": "a", "images": ["c.png"]}\n')
    with pytest.raises(BadRequest, match=r"line 1: .*c\.png: No such file"):
        draw(read_workload(str(lines)), 1)
