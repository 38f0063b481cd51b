"""Options that commands which put load on a server, real or simulated, share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from easerve.bench.arrivals import Name

LOAD, REQUESTS, MEASURE, OUTPUT = "Load", "Requests", "Measuring", "Output"

WorkloadName = Annotated[
    str,
    typer.Option(
        help="image-heavy, many-small-images, single-large-image, single-small-image, video, mixed, repeated-media, "
        "multi-turn, text-only or random-mm; or a YAML file, a folder of pictures, a file of JSON lines.",
        rich_help_panel=REQUESTS,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="A field of the workload, such as images=3 or size=448x448.", rich_help_panel=REQUESTS),
]
Seed = Annotated[
    int | None,
    typer.Option(help="Same seed, same requests (default: another each time).", rich_help_panel=REQUESTS),
]
Requests = Annotated[
    int | None,
    typer.Option(help="Requests of each run (default: 100, without --duration).", min=1, rich_help_panel=LOAD),
]
Duration = Annotated[float | None, typer.Option(help="Seconds for which requests are sent.", rich_help_panel=LOAD)]
ArrivalsName = Annotated[Name, typer.Option(help="How gaps between requests are drawn.", rich_help_panel=LOAD)]
Cv = Annotated[float, typer.Option(help="gamma: CV of the gaps; 1 is Poisson.", min=0, rich_help_panel=LOAD)]
BurstSize = Annotated[int, typer.Option(help="burst: requests that come at once.", min=1, rich_help_panel=LOAD)]
Warmup = Annotated[int, typer.Option(help="Requests before, not counted.", min=0, rich_help_panel=MEASURE)]
Unloaded = Annotated[
    int,
    typer.Option(
        help="Requests, one at a time, that give the unloaded latency; 0: no tiers.", min=0, rich_help_panel=MEASURE
    ),
]
SloTtft = Annotated[
    float | None, typer.Option(help="Objective for the time to first token, in seconds.", rich_help_panel=MEASURE)
]
SloTpot = Annotated[
    float | None, typer.Option(help="Objective for the time per output token, in seconds.", rich_help_panel=MEASURE)
]
SloE2e = Annotated[
    float | None, typer.Option(help="Objective for the whole answer, in seconds.", rich_help_panel=MEASURE)
]
IgnoreEos = Annotated[
    bool,
    typer.Option(
        "--ignore-eos/--no-ignore-eos",
        help="Ask for answers of full length; servers that know no such field need --no-ignore-eos.",
        rich_help_panel=REQUESTS,
    ),
]
Timeout = Annotated[float, typer.Option(help="Longest wait for an answer, in seconds.", rich_help_panel=MEASURE)]
ApiKey = Annotated[
    str | None, typer.Option(help="Key for the server.", envvar="OPENAI_API_KEY", show_envvar=True, show_default=False)
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write everything there.", rich_help_panel=OUTPUT)]
HtmlFile = Annotated[Path | None, typer.Option("--html", help="Write a page with plots there.", rich_help_panel=OUTPUT)]
Rate = Annotated[float | None, typer.Option(help="Requests a second.", rich_help_panel=LOAD)]
SeveralRates = Annotated[str | None, typer.Option(help="Several, as in 1,2,4: a sweep.", rich_help_panel=LOAD)]
Sweep = Annotated[bool, typer.Option("--sweep", help="Find the knee from scratch.", rich_help_panel=LOAD)]
Concurrency = Annotated[int | None, typer.Option(help="Closed loop: requests in flight.", min=1, rich_help_panel=LOAD)]
Trace = Annotated[
    Path | None, typer.Option(help="File with a moment (seconds) a line.", exists=True, rich_help_panel=LOAD)
]
