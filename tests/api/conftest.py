from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.doubles import Site, make_site, make_tokenizer


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tokenizer(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def site(tokenizer_folder: Path) -> Site:
    return make_site(tokenizer_folder)
