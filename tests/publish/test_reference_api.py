"""tutorials/reference/api.md is what the docstrings say."""

import inspect

from minirun.faces import api
from tutorials.publish.reference import api as page


def test_it_is_what_the_docstrings_say() -> None:
    """If this fails: `make reference`."""
    assert page.PAGE.read_text() == page.text()


def test_every_public_name_and_method_is_there() -> None:
    written = page.PAGE.read_text()
    for name in api.__all__:
        assert f"\n## {name}\n" in written
        shown = getattr(api, name)
        assert shown.__doc__
        if inspect.isclass(shown):
            own = [m for m, f in vars(shown).items() if inspect.isfunction(f) and m[0] != "_"]
            assert all(f"\n### {name}.{member}\n" in written for member in own)
