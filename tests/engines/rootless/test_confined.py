"""Ubuntu's AppArmor, which denies a user's namespaces every capability. The journeys on a booted
Ubuntu meet the real one; here its two files hold what the kernel's documentation says."""

from pathlib import Path

import pytest

from minirun.core.errors import UsageError
from minirun.engines import rootless_config


@pytest.mark.parametrize(
    ("restricts", "profile", "denied"),
    [
        ("1\n", "unconfined\n", True), ("0\n", "unconfined\n", False),
        ("1\n", "minirun (unconfined)\n", False), ("1\n", "unconfined\0", True),
        (None, "unconfined\n", False), ("1\n", None, False),
    ],
)  # fmt: skip
def test_who_is_denied(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    restricts: str | None,
    profile: str | None,
    denied: bool,
) -> None:
    for name, text in (("_RESTRICTS", restricts), ("_PROFILE", profile)):
        monkeypatch.setattr(rootless_config, name, str(tmp_path / name))
        if text is not None:
            (tmp_path / name).write_text(text)
    if not denied:
        rootless_config.check_namespaces()
        return
    with pytest.raises(UsageError, match="AppArmor denies") as caught:
        rootless_config.check_namespaces()
    assert "apparmor_restrict_unprivileged_userns=0" in caught.value.hint
