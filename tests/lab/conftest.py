"""Pages that are read, and not looked at."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def pages_without_pictures(without_pictures: None) -> None:
    """Draw none: what is on a page is read here, and pictures are looked at in tests of pages."""
