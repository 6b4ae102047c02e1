"""Manifest and configuration of what was built: image-spec manifest.md and config.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rootfs_tools import image_spec
from rootfs_tools.build.stage import BuildStage, moment
from rootfs_tools.take import this_platform


def documents(built: BuildStage, labels: Mapping[str, str], now: int) -> tuple[bytes, bytes]:
    """Return manifest and configuration of an image."""
    platform = built.platform or this_platform()
    config = dict(built.config)
    if labels:
        config["Labels"] = {**config.get("Labels", {}), **labels}
    document = {
        "created": last(built.history, now), "author": built.author,
        "os": platform.system, "architecture": platform.architecture, "variant": platform.variant,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in built.layers]},
        "history": [_history_row(each) for each in built.history],
    }  # fmt: skip
    data = image_spec.written({key: value for key, value in document.items() if value})
    return image_spec.manifest_of(data, [layer.blob.as_oci() for layer in built.layers]), data


def last(history: list[image_spec.History], now: int) -> str:
    """Return when the last step was done: an image that nothing has changed has the same digest."""
    return max((each.created for each in history if each.created), default=moment(now))


def _history_row(each: image_spec.History) -> dict[str, Any]:
    row = {"created": each.created, "created_by": each.created_by, "comment": each.comment}
    found: dict[str, Any] = {key: value for key, value in row.items() if value}
    return found | ({"empty_layer": True} if each.empty_layer else {})
