"""One entry of a deployment's list of workers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from easerve.errors import StartupError
from easerve.workers.spec import StageName, parse_device


class WorkerEntry(BaseModel):
    """Workers of a deployment file: `count` processes with the same stages on the same device."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stages: tuple[StageName, ...] = Field(min_length=1)
    device: str
    count: int = Field(default=1, ge=1)
    name: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9-]{0,30}$")

    @field_validator("device")
    @classmethod
    def _is_device(cls, device: str) -> str:
        try:
            parse_device(device)
        except StartupError as error:
            raise ValueError(error.message) from None
        return device
