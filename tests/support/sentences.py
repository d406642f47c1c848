"""Sentences that pages say, all in one file that is read in review.

Tests assert numbers and verdicts; wordings stand in `tests/sentences.json` and are written anew by
`BAROGRAPH_SENTENCES=write pytest -k sentences`.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).parents[1] / "sentences.json"


def require_known(group: str, sentences: Mapping[str, str]) -> None:
    """Compare the sentences of a group with those on file, of which none may be missing or left over."""
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    plain = {name: text.replace("\u00a0", " ").replace("\u2009", " ") for name, text in sentences.items()}
    if os.environ.get("BAROGRAPH_SENTENCES") == "write":
        text = json.dumps({**known, group: plain}, indent=1, ensure_ascii=False, sort_keys=True)
        FILE.write_text(f"{text}\n")
    else:
        assert plain == known.get(group, {}), "read the change, then: BAROGRAPH_SENTENCES=write pytest -k sentences"
