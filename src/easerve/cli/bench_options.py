"""Options that commands which put load on a server, real or simulated, share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from easerve.cli.output import writable

LOAD, REQUESTS, MEASURE, OUTPUT = "Load", "Requests", "Measuring", "Output"

WorkloadName = Annotated[
    str,
    typer.Option(
        help="image-heavy, many-small-images, single-large-image, single-small-image, video, audio, mixed, "
        "repeated-media, multi-turn, text-only or random-mm; or a YAML file, a folder of pictures, a file of JSON "
        "lines.",
        rich_help_panel=REQUESTS,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A field of the workload, such as images=3 or size=448x448; may be given several times.",
        rich_help_panel=REQUESTS,
    ),
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
ArrivalsName = Annotated[  # moments of a trace come with --trace
    Literal["poisson", "gamma", "constant", "burst"],
    typer.Option(help="How gaps between requests are drawn.", rich_help_panel=LOAD),
]
Cv = Annotated[
    float, typer.Option(help="gamma: coefficient of variation of the gaps; 1 is Poisson.", min=0, rich_help_panel=LOAD)
]
BurstSize = Annotated[int, typer.Option(help="burst: requests that come at once.", min=1, rich_help_panel=LOAD)]
Warmup = Annotated[int, typer.Option(help="Requests sent before, not counted.", min=0, rich_help_panel=MEASURE)]
Unloaded = Annotated[
    int,
    typer.Option(
        help="Requests sent one at a time, to know the latency without load; 0: no objectives from it.",
        min=0,
        rich_help_panel=MEASURE,
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

JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="File for the whole report as JSON.", callback=writable, rich_help_panel=OUTPUT),
]
HtmlFile = Annotated[
    Path | None,
    typer.Option("--html", help="File for a page with plots.", callback=writable, rich_help_panel=OUTPUT),
]
Rate = Annotated[float | None, typer.Option(help="Requests a second.", rich_help_panel=LOAD)]
SeveralRates = Annotated[
    str | None, typer.Option(help="A run at each of several rates, as in 1,2,4.", rich_help_panel=LOAD)
]
Sweep = Annotated[
    bool, typer.Option("--sweep", help="Find the highest rate that meets the objectives.", rich_help_panel=LOAD)
]
Concurrency = Annotated[int | None, typer.Option(help="Closed loop: requests in flight.", min=1, rich_help_panel=LOAD)]
Trace = Annotated[
    Path | None, typer.Option(help="Send when this file says: seconds, one a line.", exists=True, rich_help_panel=LOAD)
]
