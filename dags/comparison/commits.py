"""What git says of the commits that are compared, for people: subject, date, and what lies between them."""

from __future__ import annotations

from dags.experiment import Code
from dags.sources.git import GitFailed, git
from dags.sources.refs import folder_of

MOST = 50  # of the commits between


def about(code: Code) -> dict[str, str]:
    """Subject and date; nothing where the repository does not have the commit any more."""
    try:
        date, subject = git(folder_of(code.repository), "show", "-s", "--format=%cI%x00%s", code.commit).split("\0")
    except (GitFailed, ValueError):
        return {}
    return {"subject": subject, "date": date}


def between(a: Code, b: Code) -> list[str]:
    """Short hash and subject of what B has and A has not, the newest first; of one repository only."""
    if a.repository != b.repository:
        return []
    try:
        folder = folder_of(a.repository)
        return git(folder, "log", f"-{MOST}", "--format=%h %s", f"{a.commit}..{b.commit}").splitlines()
    except GitFailed:
        return []
