"""Settings of the tests of pictures and pages."""

import pytest
from browser import Browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser
