"""``.npz``: a zip archive with one ``.npy`` per array, and the metadata as the comment of the archive.

``numpy.load`` reads it without pickling and lists arrays alone; ``unzip -z FILE`` shows the metadata. Files
of earlier versions hold them as an entry ``metadata.json``, which is still read.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError
from csgm_cli.storage.arrays import metadata, npy
from csgm_cli.storage.arrays.content import Array, ArrayFile, check_file_size, known_names
from csgm_cli.storage.arrays.metadata import JSON, broken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: The entry for metadata in files of earlier versions.
_METADATA = "metadata.json"

#: An archive may grow by this factor when read (floating-point arrays compress little), or to this size.
_GROWTH, _SMALL = 100, 1 << 26

#: No archive of ours lists its entries in more than this.
_MOST_AT_ONCE = 1 << 20


def write(path: Path, file: ArrayFile, sealed: dict[str, JSON]) -> None:
    """Write an archive that depends on nothing but its content: uncompressed, in order, dated 1980.

    ``UsageError`` (slug ``too-large``) for metadata that are too long for a zip comment.
    """
    comment = metadata.canonical(sealed).encode()
    if len(comment) > zipfile.ZIP_MAX_COMMENT:
        message = f"the metadata take {len(comment)} bytes, and .npz holds {zipfile.ZIP_MAX_COMMENT}"
        raise UsageError("too-large", message, "write .safetensors or .json")
    with path.open("xb") as raw, zipfile.ZipFile(raw, "w") as archive:
        archive.comment = comment
        for name in sorted(file.arrays):
            entry = _entry(f"{name}.npy")
            entry.file_size = file.arrays[name].nbytes  # more than 2 GiB need another header
            with archive.open(entry, "w") as stream:
                npy.write(stream, file.arrays[name])


def read(path: Path) -> tuple[dict[str, Array], dict[str, JSON] | None]:
    """The arrays and the metadata as held, None for an archive without them; ``UsageError`` otherwise."""
    with _archive(path) as (archive, entries):
        held = _metadata(archive, entries.pop(_METADATA, None))
        stems = _stems(entries)
        if strangers := sorted(entries.keys() - stems.values()):
            raise UsageError("unknown-array", f"it holds an entry {strangers[0]!r}, which is no array")
        names = known_names(stems, ours=held is not None)
        arrays = {name: _array(archive, entries[stems[stem]], name) for name, stem in names.items()}
        return arrays, held


def read_named(
    path: Path, names: Iterable[str], check: npy.Check
) -> tuple[dict[str, Array], dict[str, JSON] | None]:
    """The arrays called ``names``, whose headers ``check`` judges, and the metadata; others are left unread.

    ``UsageError`` as for `read`, and where one is missing (slug ``no-arrays``).
    """
    with _archive(path) as (archive, entries):
        stems = _stems(entries)
        names = tuple(names)
        if missing := [name for name in names if name not in stems]:
            raise UsageError("no-arrays", f"it holds no array {missing[0]!r}; needed are {', '.join(names)}")
        arrays = {name: _array(archive, entries[stems[name]], name, check) for name in names}
        return arrays, _metadata(archive, None)


def _stems(entries: Iterable[str]) -> dict[str, str]:
    """The name of the entry of each array."""
    return {name.removesuffix(".npy"): name for name in entries if name.endswith(".npy")}


@contextmanager
def _archive(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """An open archive and its entries, whose names and sizes have been checked."""
    with _broken_archives(), _Bounded(path) as raw, zipfile.ZipFile(raw) as archive:
        size = path.stat().st_size
        entries = _entries(archive, size)
        _check_end(raw, size, len(archive.comment))
        yield archive, entries


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.create_system = 3  # Unix, wherever it is written
    entry.external_attr = 0o644 << 16
    return entry


class _Bounded(io.BufferedReader):
    """A file object that limits reads: zipfile trusts the sizes and offsets of the listing."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_AT_ONCE:
            raise broken("its listing of entries is far too long")
        return super().read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence == io.SEEK_SET and offset < 0:  # an OSError would blame the disk
            raise broken("its listing points before its beginning")
        return super().seek(offset, whence)


@contextmanager
def _broken_archives() -> Iterator[None]:
    try:
        yield
    # The last three are what zipfile lets through of absurd names, offsets and extra fields.
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OverflowError, RuntimeError) as error:
        raise broken(f"it is not a sound zip archive: {error}") from None


def _entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.filename
        if name in entries:
            raise UsageError("duplicate-array", f"it holds an entry {name!r} twice")
        if {"/", "\\", ":", "\0"} & set(name) or name != entry.orig_filename or name.startswith("."):
            raise UsageError("bad-name", f"it holds an entry named {entry.orig_filename!r}")
        if entry.flag_bits & 1:
            raise UsageError("encrypted", f"its entry {name!r} is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise broken(f"its entry {name!r} is compressed in a way that NumPy does not use")
        entries[name] = entry
    total = sum(entry.file_size for entry in entries.values())
    if total > max(_SMALL, _GROWTH * size):
        message = f"its {size} bytes claim to hold {total}"
        raise UsageError("zip-bomb", message, "save it without compression if that is so")
    check_file_size(total)
    return entries


def _check_end(raw: io.BufferedReader, size: int, length: int) -> None:
    """Raise ``UsageError`` unless the comment has its recorded length, which zipfile does not check."""
    raw.seek(size - length - 2)
    if int.from_bytes(raw.read(2), "little") != length:
        raise broken("its end is cut off")


def _array(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str, check: npy.Check = npy.check_factor
) -> Array:
    with archive.open(entry) as stream:
        return npy.read(stream, entry.file_size, name, check)


def _metadata(archive: zipfile.ZipFile, entry: zipfile.ZipInfo | None) -> dict[str, JSON] | None:
    """From the comment of the archive or the entry of an earlier version; None without either."""
    if entry is None:
        return metadata.parse_object(archive.comment, "its comment") if archive.comment else None
    if archive.comment:
        raise broken(f"it holds metadata twice: in its comment and as {_METADATA}")
    if entry.file_size > metadata.MOST_BYTES:
        raise UsageError("too-large", f"its metadata take {entry.file_size} bytes")
    with archive.open(entry) as stream:
        return metadata.parse_object(stream.read(), _METADATA)
