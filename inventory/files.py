"""Files that are replaced as a whole."""

import os
from pathlib import Path

from boltons.fileutils import atomic_save


def replace_file(path: Path, text: str) -> None:
    """The file has the text, and has it on disk, when this returns; a reader sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A process that was killed may have left its part: the next one takes its place.
    with atomic_save(path, part_file=f".{path.name}.partial", overwrite_part=True) as file:
        file.write(text.encode())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
