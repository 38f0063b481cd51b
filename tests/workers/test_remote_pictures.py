"""Pictures loaded by workers: spread, redone when a worker is lost, cancelled at the worker; nothing stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.errors import (
    BadRequest,
    DeadlineExceeded,
    EAServeError,
    Overloaded,
    TooLarge,
    TransferError,
    Unavailable,
    WorkerLost,
)
from easerve.request import LaidPicture, TensorRef
from easerve.workers.client import WorkerClient
from easerve.workers.messages import CancelPicture, LoadPicture, Message, PictureLoaded, pack, unpack_at_front_end
from easerve.workers.remote_pictures import MAX_ATTEMPTS, PicturePool, RemotePictures
from easerve.workers.stage import failure

SOURCES = [("a.png", "first"), ("b.png", "second"), ("c.png", "third")]


@dataclass
class Book:
    """A ledger without memory."""

    live: set[str] = field(default_factory=set)

    def adopt(self, ref: TensorRef) -> None:
        self.live.add(ref.name)

    def release(self, ref: TensorRef) -> None:
        self.live.remove(ref.name)  # a second release is an error here: it means two owners


def laid(url: str, worker: str) -> LaidPicture:
    ref = TensorRef(f"{worker}:{url}", (2, 3, 3), "uint8", 18)
    return LaidPicture(key=url, height=2, width=3, pixels=ref, fetch_s=0.1, decode_s=0.2)


class Workers:
    """Stand-ins that answer when told to, and a pool of them."""

    def __init__(self, *names: str, deadline: float = 30.0) -> None:
        self.book = Book()
        self.pool = PicturePool(deadline)
        self.pictures = RemotePictures(self.pool, self.book, b"salt")  # type: ignore[arg-type]
        self.asked: dict[str, dict[int, LoadPicture]] = {}
        self.cancelled: list[tuple[str, LoadPicture]] = []
        self.clients: dict[str, WorkerClient] = {}
        self.made = 0
        for name in names:
            self.up(name)

    def up(self, name: str) -> None:
        asked = self.asked[name] = {}

        def send(message: Message) -> None:
            if isinstance(message, LoadPicture):
                asked[message.number] = message
            elif isinstance(message, CancelPicture):
                self.cancelled.append((name, asked.pop(message.number)))

        self.clients[name] = WorkerClient(name, ["encode"], send, self.book)  # type: ignore[arg-type]
        self.pool.add_worker(self.clients[name])

    def answer(self, name: str, number: int, error: EAServeError | None = None) -> None:
        self._say(name, self.asked[name].pop(number), error)

    def answer_late(self) -> None:
        """What was cancelled had been answered already; the answers cross the cancels."""
        while self.cancelled:
            self._say(*self.cancelled.pop(), None)

    def _say(self, name: str, message: LoadPicture, error: EAServeError | None) -> None:
        self.made += 1
        picture = laid(message.url, f"{name}-{self.made}") if error is None else failure(error, "loading")
        self.clients[name].handle(unpack_at_front_end(pack(PictureLoaded(message.number, picture))))

    def answer_all(self, name: str) -> None:
        for number in list(self.asked[name]):
            self.answer(name, number)

    def lose(self, name: str, *, returns: bool) -> None:
        """In the order of the supervisor."""
        self.pool.remove_worker(name, returns=returns)
        self.asked.pop(name)
        self.cancelled = [(other, message) for other, message in self.cancelled if other != name]
        self.clients.pop(name).lose("died")

    def load(self, sources: Sequence[tuple[str, str]] = SOURCES) -> asyncio.Task[list[LaidPicture]]:
        return asyncio.create_task(self.pictures.load_all(sources))


async def turns(count: int = 8) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_pictures_go_where_there_is_least_and_come_back_in_order() -> None:
    workers = Workers("x", "y")
    task = workers.load([(f"{k}.png", "field") for k in range(6)])
    await turns()
    assert {name: len(asked) for name, asked in workers.asked.items()} == {"x": 3, "y": 3}
    assert {message.salt for asked in workers.asked.values() for message in asked.values()} == {b"salt"}
    workers.answer_all("y")
    more = workers.load([("6.png", "field"), ("7.png", "field")])
    await turns()
    assert {name: len(asked) for name, asked in workers.asked.items()} == {"x": 3, "y": 2}
    for name in ("x", "y"):
        workers.answer_all(name)
    assert [picture.key for picture in await task + await more] == [f"{k}.png" for k in range(8)]


async def test_an_idle_pool_takes_turns() -> None:
    workers = Workers("x", "y")
    used = []
    for _ in range(4):
        task = workers.load(SOURCES[:1])
        await turns()
        used += [name for name, asked in workers.asked.items() if asked]
        workers.answer_all(used[-1])
        await task
    assert used == ["x", "y", "x", "y"]


async def test_what_a_lost_worker_held_is_loaded_on_another() -> None:
    workers = Workers("x", "y")
    task = workers.load()
    await turns()
    workers.answer("x", 0)
    workers.lose("x", returns=True)
    await turns()
    workers.answer_all("y")
    pictures = await task
    assert [picture.key for picture in pictures] == ["a.png", "b.png", "c.png"]
    assert workers.book.live == {picture.pixels.name for picture in pictures}


async def test_with_none_up_it_waits_for_one_that_returns_and_else_says_so() -> None:
    workers = Workers("x")
    task = workers.load()
    await turns()
    workers.lose("x", returns=True)
    await turns()
    assert not task.done()
    workers.up("x")
    await turns()
    workers.answer("x", 0)
    workers.lose("x", returns=False)
    with pytest.raises(Unavailable, match="no encode worker is alive") as caught:
        await task
    assert caught.value.retry_after
    assert not workers.book.live


async def test_a_picture_that_kills_every_worker_is_given_up() -> None:
    workers = Workers("x")
    task = workers.load(SOURCES[:1])
    for _ in range(MAX_ATTEMPTS):
        await turns()
        assert not task.done()
        workers.lose("x", returns=True)
        workers.up("x")
    with pytest.raises(WorkerLost):
        await task


async def test_a_worker_that_is_stopped_is_not_waited_for() -> None:
    """At a server's end workers are not taken out of the pool one by one."""
    workers = Workers("x")
    workers.clients["x"].lose("was stopped")
    with pytest.raises(WorkerLost, match="was stopped"):
        await asyncio.wait_for(workers.load(), 5)


async def test_a_worker_that_never_answers_ends_in_a_typed_error_and_is_told() -> None:
    workers = Workers("x", deadline=0.05)
    with pytest.raises(DeadlineExceeded, match=r"^first: ") as caught:
        await workers.load(SOURCES[:1])
    assert caught.value.param == "first"
    assert workers.asked == {"x": {}}


@pytest.mark.parametrize(
    "error",
    [
        BadRequest("messages[0]: broken", param="messages[0]", code="invalid_image"),
        TooLarge("too large", param="messages[0]"),
        Overloaded("too many", retry_after=2.5),
        Unavailable("stopping"),
        TransferError("no room", param="x"),
    ],
)
async def test_errors_survive_the_way_and_end_the_others(error: EAServeError) -> None:
    workers = Workers("x", "y")
    task = workers.load()
    await turns()
    workers.answer("x", 0)
    workers.answer("y", 0, error)
    with pytest.raises(type(error)) as caught:
        await task
    for name in ("message", "param", "code", "retry_after", "status", "kind"):
        assert getattr(caught.value, name) == getattr(error, name)
    assert not any(workers.asked.values()), "the third is cancelled at its worker"
    assert not workers.book.live


KINDS = ["load", "answer", "fail", "late", "cancel", "lose", "up", "turn"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 9)), max_size=40)


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_every_buffer_has_one_owner_whatever_happens_when(steps: list[tuple[str, int]]) -> None:
    """Answers, failures, losses and cancels in any order, also several in one turn of the loop."""

    async def play() -> None:
        workers = Workers("x", "y", "z")
        loads: list[asyncio.Task[list[LaidPicture]]] = []

        def pick(asked: dict[str, dict[int, LoadPicture]], k: int) -> tuple[str, int] | None:
            open_ones = [(name, number) for name, numbers in asked.items() for number in numbers]
            return open_ones[k % len(open_ones)] if open_ones else None

        def lose(k: int) -> None:
            names = list(workers.clients)
            if names:
                workers.lose(names[k % len(names)], returns=k % 2 == 0)

        def answer(k: int, error: EAServeError | None) -> None:
            if (one := pick(workers.asked, k)) is not None:
                workers.answer(*one, error)

        do: dict[str, Callable[[int], object]] = {
            "load": lambda k: loads.append(workers.load(SOURCES[: k % 4])),
            "answer": lambda k: answer(k, None),
            "fail": lambda k: answer(k, BadRequest("broken")),
            "late": lambda k: workers.answer_late(),
            "cancel": lambda k: loads and loads[k % len(loads)].cancel(),
            "lose": lose,
            "up": lambda k: workers.up("xyz"[k % 3]) if "xyz"[k % 3] not in workers.clients else None,
        }
        for step, k in steps:
            if step == "turn":
                await turns(1 + k)
            else:
                do[step](k)
        await turns(20)
        for load in loads:
            load.cancel()
        outcomes = await asyncio.gather(*loads, return_exceptions=True)
        held = {picture.pixels.name for outcome in outcomes if isinstance(outcome, list) for picture in outcome}
        assert workers.book.live == held
        assert not any(workers.asked.values()), "nothing is loaded for nobody"
        assert not any(client.pictures.outstanding for client in workers.clients.values())

    asyncio.run(play())
