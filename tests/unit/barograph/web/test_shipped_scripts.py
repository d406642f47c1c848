"""The scripts of our pages can be recognised by their text: they have no values of the page in them."""

from barograph.settings import ROOT
from barograph.web.result_files import shipped_scripts


def test_there_is_one_and_each_is_the_same_in_every_page() -> None:
    assert shipped_scripts(), "figures answer to the mouse by a script"
    for script in shipped_scripts():
        assert not any(mark in script for mark in (b"{{", b"{%", b"{#")), "data belongs in a JSON element beside it"


def test_no_template_has_a_script_of_its_own() -> None:
    for template in (ROOT / "analysis").rglob("*.html.j2"):
        for line in template.read_text().splitlines():
            if "<script" in line and "application/json" not in line:
                assert "include" in line or line.strip() == "<script>", f"{template}: {line}"
