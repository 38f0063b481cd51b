"""What pages refer to is there: pages and their headings, files, tests, and what Python examples import."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
import yaml

from easerve.config import Deployment

from .commands import FENCED, INLINE, NAMES, PAGES, ROOT

FILES = [
    f"/{path.relative_to(ROOT)}" for folder in ("src", "tests", "tools", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
]  # fmt: skip
TESTS = {
    f"/{path.relative_to(ROOT)}": set(
        re.findall(r"^ *(?:class |def |async def |(?=Test))(\w+)", path.read_text(), re.MULTILINE)
    )
    for path in (ROOT / "tests").rglob("*.py")
}
each_page = pytest.mark.parametrize("page", PAGES, ids=NAMES)


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text())):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        assert other.exists(), target
        assert not heading or heading in _headings(other), target


def _headings(page: Path) -> set[str]:
    """As they are linked to."""
    titles = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@each_page
def test_files_and_tests_that_are_named_exist(page: Path) -> None:
    names = set().union(*TESTS.values())
    for span in INLINE.findall(page.read_text()):
        file, _, name = span.partition("::")
        name = name.partition("[")[0]
        if re.fullmatch(r"(?:\.\./)?[\w./-]+\.py", file):
            found = [one for one in FILES if one.endswith("/" + file.removeprefix("../"))]
            assert found, span
            assert not name or any(name in TESTS.get(one, ()) for one in found), span
        elif re.fullmatch(r"test_\w+", span):
            assert span in names, span


@each_page
def test_deployments_shown_are_deployments(page: Path) -> None:
    for kind, block in FENCED.findall(page.read_text()):
        if kind == "yaml":
            Deployment(**yaml.safe_load(block))


@each_page
def test_what_python_examples_import_is_there(page: Path) -> None:
    for kind, block in FENCED.findall(page.read_text()):
        if kind != "python":
            continue
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("easerve"):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names), node.module
