"""Broken JSON and CSV: each is refused with one clear error."""

import numpy as np
import pytest

from csgm_cli.errors import StorageError
from csgm_cli.storage.arrays import read_arrays
from tests.storage.arrays.hostile_files import METADATA, folder, refusal


def document(
    rows="[[1.0,2.0],[3.0,4.0]]", layout='{"B":{"dtype":"float64","shape":[2,2]}}', metadata=METADATA
):
    """A JSON file of one array, with some part changed."""
    return f'{{"arrays":{{"B":{rows}}},"layout":{layout},"metadata":{metadata}}}'.encode()


TEXT = {
    "empty file": (b"", "broken-file"),
    "a list": (b"[]", "broken-file"),
    "an empty object": (b"{}", "broken-file"),
    "cut off": (document()[:-1], "broken-file"),
    "not UTF-8": (document().replace(b"schema", b"\xff"), "broken-file"),
    "nested deeply": (b'{"arrays":' * 50_000, "broken-file"),
    "an array nested deeply": (document("[" * 5000 + "]" * 5000), "broken-file"),
    "ragged": (document("[[1.0,2.0],[3.0]]"), "broken-file"),
    "not a list": (document("3"), "broken-file"),
    "rows that are no lists": (document("[1.0,2.0]"), "broken-file"),
    "first row no list": (document("[1.0,[2.0]]"), "broken-file"),
    "no rows": (document("[]"), "broken-file"),
    "empty rows": (document("[[],[]]"), "broken-file"),
    "text": (document('[["1.0",2.0],[3.0,4.0]]'), "broken-file"),
    "true": (document("[[true,2.0],[3.0,4.0]]"), "broken-file"),
    "null": (document("[[null,2.0],[3.0,4.0]]"), "broken-file"),
    "NaN": (document("[[NaN,2.0],[3.0,4.0]]"), "not-finite"),
    "1e999": (document("[[1e999,2.0],[3.0,4.0]]"), "not-finite"),
    "400 digits": (document(f"[[{'9' * 400},2.0],[3.0,4.0]]"), "not-finite"),
    "5000 digits": (document(f"[[{'9' * 5000},2.0],[3.0,4.0]]"), "broken-file"),
    "beyond float32": (
        document("[[1e300]]", '{"B":{"dtype":"float32","shape":[1,1]}}'),
        "not-finite",
    ),
    "another shape": (document(layout='{"B":{"dtype":"float64","shape":[1,4]}}'), "broken-file"),
    "one side": (document(layout='{"B":{"dtype":"float64","shape":[4]}}'), "shape-mismatch"),
    "shape of text": (document(layout='{"B":{"dtype":"float64","shape":["2",2]}}'), "broken-file"),
    "no shape": (document(layout='{"B":{"dtype":"float64"}}'), "broken-file"),
    "dtype of objects": (document(layout='{"B":{"dtype":"object","shape":[2,2]}}'), "wrong-dtype"),
    "dtype that is a list": (document(layout='{"B":{"dtype":[1],"shape":[2,2]}}'), "wrong-dtype"),
    "layout of another": (document(layout='{"C":{"dtype":"float64","shape":[2,2]}}'), "broken-file"),
    "layout is a list": (document(layout="[]"), "broken-file"),
    "two B": (document('1,"B":2'), "duplicate-array"),
    "unknown array": (document().replace(b'"B"', b'"W"'), "unknown-array"),
    "no schema": (document(metadata="{}"), "broken-file"),
    "no metadata": (document(metadata="null"), "broken-file"),
}


@pytest.mark.parametrize("name", TEXT)
def test_json(tmp_path, name):
    """Each broken JSON file is refused for its own reason."""
    data, slug = TEXT[name]
    (tmp_path / "x.json").write_bytes(data)
    assert refusal(tmp_path / "x.json").slug == slug


CSV = {
    "ragged": (b"1.0,2.0\n3.0\n", "broken-file"),
    "another shape": (b"1.0,2.0\n", "broken-file"),
    "empty": (b"", "broken-file"),
    "empty cell": (b"1.0,\n3.0,4.0\n", "broken-file"),
    "heading": (b"a,b\n1.0,2.0\n3.0,4.0\n", "broken-file"),
    "underscore": (b"1_0,2.0\n3.0,4.0\n", "broken-file"),
    "other digits": ("\u0661,2.0\n3.0,4.0\n".encode(), "broken-file"),
    "NaN": (b"nan,2.0\n3.0,4.0\n", "not-finite"),
    "infinity": (b"1e999,2.0\n3.0,4.0\n", "not-finite"),
    "huge": (b"1.0,2.0\n" * 1_000_000, "too-large"),
}


@pytest.mark.parametrize("name", CSV)
def test_csv(tmp_path, name):
    """Each broken CSV file is refused for its own reason."""
    data, slug = CSV[name]
    assert refusal(folder(tmp_path / "x.csv", data)).slug == slug


def test_csv_with_windows_line_ends(tmp_path):
    """What a spreadsheet does to line ends does not matter."""
    read = read_arrays(folder(tmp_path / "x.csv", b"1.0,2.0\r\n3.0,4.0"))
    np.testing.assert_array_equal(read.arrays["B"], [[1, 2], [3, 4]])


@pytest.mark.parametrize("layout", ['{"../B":{"dtype":"float64","shape":[2,2]}}', "{}", "[]"])
def test_csv_layout(tmp_path, layout):
    """A layout names known arrays only, so that no file elsewhere is opened."""
    assert refusal(folder(tmp_path / "x.csv", layout=layout)).slug in {
        "unknown-array",
        "no-arrays",
        "broken-file",
    }


def test_csv_folder_with_a_missing_file(tmp_path):
    """A file of the folder that cannot be opened is a StorageError, as any other is."""
    (folder(tmp_path / "x.csv") / "B.csv").unlink()
    with pytest.raises(StorageError, match=r"there is no B\.csv in it"):
        read_arrays(tmp_path / "x.csv")


@pytest.mark.parametrize(("part", "times"), [(b" ", 120_000_000), (b"[],", 5_000_000)])
def test_huge_json(tmp_path, part, times):
    """JSON that is too long, or would make too many objects, is refused before it is parsed."""
    (tmp_path / "x.json").write_bytes(b"[" + part * times + b"0]")
    assert refusal(tmp_path / "x.json").slug == "too-large"
