"""Labelled examples: idx files and .npz, well-formed, damaged and hostile."""

import gzip
import struct

import numpy as np
import pytest

from csgm_cli.errors import StorageError, UsageError
from csgm_cli.storage.arrays.labelled import read_labelled

IMAGES = np.arange(24, dtype=np.uint8).reshape(4, 2, 3) * 10
LABELS = np.array([3, 0, 2, 3], np.uint8)


def idx(array):
    """The bytes of an idx file, as its specification has them."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.tobytes()


def write_idx(folder, pack=lambda content: content, suffix="", **changed):
    """Four idx files; ``changed`` replaces the content of one."""
    contents = {
        "train-images-idx3-ubyte": idx(IMAGES),
        "train-labels-idx1-ubyte": idx(LABELS),
        "t10k-images-idx3-ubyte": idx(IMAGES[:2]),
        "t10k-labels-idx1-ubyte": idx(LABELS[:2]),
    }
    for name, content in contents.items():
        found = changed.get(name.replace("-", "_"), content)
        (folder / f"{name}{suffix}").write_bytes(pack(found))


def write_npz(folder, **changed):
    """One .npz file; ``changed`` replaces one of its arrays, None drops it."""
    arrays = {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[:2], "y_test": LABELS[:2]} | changed
    np.savez(folder / "set.npz", **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize(
    "write",
    [
        write_idx,
        lambda folder: write_idx(folder, gzip.compress, ".gz"),
        write_npz,
        lambda folder: write_npz(folder, x_train=IMAGES / 255.0, y_train=LABELS.astype(float)),
    ],
)
def test_all_forms_hold_the_same_examples(tmp_path, write):
    """One row of features in [0, 1] for each example, and its label."""
    write(tmp_path)
    found = read_labelled(tmp_path)
    assert found["x_train"] == pytest.approx(np.arange(24).reshape(4, 6) * 10 / 255)
    assert found["x_test"].shape == (2, 6)
    assert found["y_train"].tolist() == [3, 0, 2, 3]
    assert (found["x_train"].dtype, found["y_train"].dtype) == (np.float32, np.int64)


@pytest.mark.parametrize(
    ("content", "slug"),
    [
        (b"", "broken-file"),
        (b"\0\0\x08", "broken-file"),
        (b"\0\0\x0d\x03" + bytes(12), "broken-file"),
        (b"\0\0\x08\x09" + bytes(36), "broken-file"),
        (idx(IMAGES)[:9], "broken-file"),
        (idx(IMAGES)[:-1], "broken-file"),
        (idx(IMAGES) + b"\0", "broken-file"),
        (struct.pack(">BBBB3I", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1), "zip-bomb"),
        (idx(IMAGES[:3]), "shape-mismatch"),
        (idx(IMAGES[:, :1]), "shape-mismatch"),
        (idx(IMAGES[:0]), "shape-mismatch"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_damaged_idx_files_are_refused(tmp_path, content, slug, packed):
    """Truncated, too long, of another type, too large, or not matching its labels."""
    write_idx(
        tmp_path,
        gzip.compress if packed else lambda content: content,
        ".gz" if packed else "",
        train_images_idx3_ubyte=content,
    )
    with pytest.raises(UsageError) as caught:
        read_labelled(tmp_path)
    assert caught.value.slug == slug
    assert str(tmp_path) in caught.value.message


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-12], lambda c: c[:20] + b"\xff\xff" + c[22:], lambda c: b"no"]
)
def test_damaged_compression_is_refused(tmp_path, damage):
    """A gzip stream that ends early, is changed, or is none."""
    write_idx(tmp_path, lambda content: damage(gzip.compress(content)), ".gz")
    with pytest.raises(UsageError) as caught:
        read_labelled(tmp_path)
    assert caught.value.slug == "broken-file"


@pytest.mark.parametrize(
    ("changed", "slug"),
    [
        ({"x_train": np.array([[{}]] * 4, object)}, "wrong-dtype"),
        ({"x_train": np.array([["a"]] * 4)}, "wrong-dtype"),
        ({"x_train": IMAGES * (1 + 1j)}, "wrong-dtype"),
        ({"x_train": np.full((4, 6), np.nan)}, "not-finite"),
        ({"x_train": np.full((4, 6), 1e300)}, "not-finite"),
        ({"x_train": np.zeros(4)}, "shape-mismatch"),
        ({"y_train": np.zeros((4, 1))}, "shape-mismatch"),
        ({"y_train": np.array([0, 1, 2, -1])}, "bad-labels"),
        ({"y_train": np.array([0, 1, 2, 1000])}, "bad-labels"),
        ({"y_train": np.array([0, 1, 2, 0.5])}, "bad-labels"),
        ({"y_train": np.array([0, 1, 2, np.nan])}, "bad-labels"),
        ({"y_test": None}, "no-arrays"),
    ],
)
def test_unusable_arrays_are_refused(tmp_path, changed, slug):
    """Objects, text, NaN, other shapes, labels that are none, and missing arrays."""
    write_npz(tmp_path, **changed)
    with pytest.raises(UsageError) as caught:
        read_labelled(tmp_path)
    assert caught.value.slug in (slug, "pickled")


def test_a_zip_bomb_is_refused(tmp_path):
    """A small archive that would take far more memory."""
    np.savez_compressed(tmp_path / "set.npz", x_train=np.zeros((100, 1_000_000), np.uint8))
    with pytest.raises(UsageError) as caught:
        read_labelled(tmp_path)
    assert caught.value.slug == "zip-bomb"


def test_folders_without_a_set_are_refused(tmp_path):
    """Empty, missing, or no folder."""
    with pytest.raises(UsageError, match="0 files train-images"):
        read_labelled(tmp_path)
    (tmp_path / "file").write_text("")
    for path in ("missing", "file", "\0"):
        with pytest.raises(StorageError):
            read_labelled(tmp_path / path)
