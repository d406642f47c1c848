"""Inside Airflow a page runs the scripts that we ship and no others."""

import base64
import hashlib
from pathlib import Path

import pytest

from barograph.web import result_files


@pytest.fixture(autouse=True)
def _ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_files, "shipped_scripts", lambda: frozenset({b"ours();"}))


def digest(text: bytes) -> str:
    return base64.b64encode(hashlib.sha256(text).digest()).decode()


def test_a_shipped_script_is_allowed_with_the_space_its_template_puts_around_it() -> None:
    assert result_files.scripts_in(b"<p><script>\nours();\n</script>") == (digest(b"\nours();\n"),)


@pytest.mark.parametrize(
    "page",
    [
        b"<script>theirs();</script>",
        b"<script>ours(); theirs();</script>",
        b"<SCRIPT src='https://example.org/x.js'></SCRIPT>",
        b"<img src=x onerror='theirs()'>",
        b"<script type='application/json'>{}</script>",
    ],
)
def test_any_other_is_not(page: bytes) -> None:
    assert result_files.scripts_in(page) == ()


def test_the_policy_allows_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_bytes(b"<script>ours();</script><script>theirs();</script>")
    policy = result_files.policy_header_of(page)
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == directives["base-uri"] == directives["form-action"] == "'none'"
    assert directives["script-src"] == f"'sha256-{digest(b'ours();')}'"
    assert directives["frame-ancestors"] == "'self'"
    page.write_bytes(b"<script>theirs(), theirs();</script>")
    assert "script-src 'none'" in result_files.policy_header_of(page), "a page that was changed is read anew"


def test_what_is_no_page_runs_nothing(tmp_path: Path) -> None:
    drawing = tmp_path / "figure.svg"
    drawing.write_bytes(b"<svg><script>ours();</script></svg>")
    assert "script-src 'none'" in result_files.policy_header_of(drawing)
