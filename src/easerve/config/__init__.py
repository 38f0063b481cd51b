"""A deployment, typed: what is served, by which workers on which devices, and within which limits."""

from easerve.config.bounds import encode_tokens, engine_options
from easerve.config.deployment import BUILTIN, SHAPE, Deployment
from easerve.config.entry import WorkerEntry
from easerve.config.files import read_deployment, write_deployment
from easerve.config.model import model_folder, model_problems, served_name
from easerve.config.summary import describe, problems
from easerve.config.topology import WorkerPlan, engine_of, plan_workers

__all__ = [
    "BUILTIN",
    "SHAPE",
    "Deployment",
    "WorkerEntry",
    "WorkerPlan",
    "describe",
    "encode_tokens",
    "engine_of",
    "engine_options",
    "model_folder",
    "model_problems",
    "plan_workers",
    "problems",
    "read_deployment",
    "served_name",
    "write_deployment",
]
