"""Files that are replaced as a whole."""

import os
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """The file has the text, and has it on disk, when this returns; a reader sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
