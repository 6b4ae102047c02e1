"""`minirun history`, and `import` as docker has it."""

import json
import tarfile
from pathlib import Path

from tests.rootfs_tools.cli.test_load import LAYERS, Run, run
from tests.rootfs_tools.layouts import LayoutFolder, member, tar

__all__ = ["run"]


def test_each_step_says_what_its_layer_did(run: Run, tmp_path: Path) -> None:
    top = tar(member("etc/", tarfile.DIRTYPE), member("etc/a", content=b"changed"), member("new"))
    folder = LayoutFolder(tmp_path / "layout", *LAYERS, top)
    assert run("load", "-i", f"{folder.path}:test", "app")[0] == 0
    status, out, error = run("history", "app")
    assert (status, error) == (0, "")
    header, *rows = out.splitlines()
    assert header.split() == ["CREATED", "CREATED", "BY", "SIZE", "FILES", "COMMENT"]
    assert [row.split("   ")[-1].strip() for row in rows] == ["+1 ~1 -0", "+1 ~0 -1", "+2 ~0 -0"]
    found = json.loads(run("history", "--json", "app")[1])
    assert [row["changes"]["size"] for row in found] == [7, 1, 1]


def test_a_manifest_of_dockers_form_has_its_history(run: Run, tmp_path: Path) -> None:
    folder = LayoutFolder(tmp_path / "layout", *LAYERS, history=True)
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    manifest = folder.manifest | {"mediaType": kind}
    row = {"mediaType": kind} | folder.blob(json.dumps(manifest).encode())
    (folder.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [row]}))
    assert run("load", "-i", str(folder.path), "app")[0] == 0
    assert run("history", "app")[1].count("a test") == len(LAYERS)


def test_an_image_that_was_made_here_has_one_step(run: Run, tmp_path: Path) -> None:
    (tmp_path / "made.tar").write_bytes(tar(member("a", content=b"x\n"), member("b")))
    assert run("import", str(tmp_path / "made.tar"), "made")[0] == 0
    _, out, _ = run("image", "history", "made")
    assert "imported from made.tar" in out
    assert "+2 ~0 -0" in out


def test_wrong_words_are_one_line(run: Run) -> None:
    for words, status in ((("history",), 1), (("history", "none"), 1), (("import", "x"), 1)):
        found, out, error = run(*words)
        assert (found, out, error.count("\n")) == (status, "", 1)


def test_dockers_forms(run: Run, tmp_path: Path) -> None:
    (tmp_path / "made.tar").write_bytes(tar(member("a", content=b"x" * 2000)))
    assert run("import", str(tmp_path / "made.tar"), "made")[0] == 0
    form = "{{.CreatedBy}}|{{.Size}}|{{.Comment}}"
    made, size, comment = run("history", "--format", form, "made")[1].split("|")
    assert made.startswith("imported from made.tar")
    assert (size, comment) == ("2kB", "\n")
    assert run("history", "--format", form, "-H=false", "made")[1].split("|")[1] == "2000"
    own = run("images", "--format", "{{.ID}}", "made")[1]
    assert run("history", "-q", "made")[1] == own
    folder = LayoutFolder(tmp_path / "layout", *LAYERS)
    assert run("load", "-i", f"{folder.path}:test", "app")[0] == 0
    ids = run("history", "-q", "app")[1].split()
    assert len(ids) == len(LAYERS)
    assert set(ids[1:]) == {"<missing>"}
