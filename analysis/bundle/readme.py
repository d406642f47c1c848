"""README.md of a bundle: its subject, its claims, how to reproduce it, and what it leaves out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.bundle.environment import EnvironmentFacts
from analysis.record.simulated import is_simulated

HOMES_SHOWN = 10
SIMULATED_WORDS = "**Simulated, not measured**: no machine and no Storm ran. Every number is a model's answer."


@dataclass(frozen=True)
class ReadmeContent:
    """Data of a README. `sources`: a line each about the code; `left_out`: name -> reason; `homes`: files that name
    home folders; `trust`: the report's sentence about simulated runs."""

    title: str
    run_id: str | None
    facts: EnvironmentFacts
    claims: Sequence[Mapping[str, Any]]
    sources: Sequence[str]
    left_out: Mapping[str, str]
    homes: Sequence[str]
    trust: str = ""


def text(content: ReadmeContent) -> str:
    is_model = _is_simulated(content)
    parts = (
        _head(content, is_model), _again(is_model), _claims(content.claims, is_model), _inside(),
        _runs(content.facts), _environment(content.facts), _code(content.sources), _not_inside(content),
    )  # fmt: skip
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(content: ReadmeContent, simulated: bool) -> Iterator[str]:
    yield f"# {content.title}\n"
    series = content.facts.series
    yield (
        f"Series `{series.get('series_id')}` of the experiment `{series.get('experiment')}`, run by Barograph, a"
        " harness for experiments on the elastic scheduling of Apache Storm."
    )
    if content.run_id is not None:
        other_runs = len(series.get("reduced_from") or ()) - 1
        yield (
            f"Of the series this is the run `{content.run_id}` alone; {other_runs} other runs are left out, tables are"
            " reduced to it, and figures, report and verdicts are made of it."
        )
    if simulated:
        yield f"\n{content.trust or SIMULATED_WORDS}"
    yield ""


def _is_simulated(content: ReadmeContent) -> bool:
    return is_simulated(content.facts.series) or any(map(is_simulated, content.facts.runs.values()))


def _again(simulated: bool) -> Iterator[str]:
    yield "## How to make it again\n"
    yield "```\npython3 remake.py\n```\n"
    yield (
        "checks every file against `SHA256SUMS` (`sha256sum -c SHA256SUMS` does too), installs the pinned packages of"
        " `requirements-analysis.txt` (Python 3.11 or 3.12; `--python EXE` takes an interpreter that has them, and no"
        " network), makes every table, figure and the report from the raw lines into `remade/` with Spark, and"
        " compares them with those in `series/`, value by value; floats to 9 digits, because sums of parts come in any"
        " order. It says `equal`, or what differs. Exit codes: 0 equal, 1 differs, 2 cannot be made again,"
        " 3 a file is damaged, missing or was added."
    )
    verb = "simulate" if simulated else "measure"
    place = "" if simulated else ", on machines of your own"
    yield (
        f"\nTo {verb} again{place}, take the code in `source/`, whose README says how. The experiment"
        " is `specs/experiment.json`; without its `name` it is a file for `dags/experiments/<family>/<name>.yaml`."
    )
    yield ""


COLUMNS = {
    "claim": "id", "statement": "statement", "stated": "stated_text", "measured": "measured_text",
    "interval": "interval_text", "runs": "runs", "verdict": "verdict_text",
}  # fmt: skip
MODEL_COLUMNS = {
    "claim": "id", "statement": "statement", "stated": "stated_text", "the model gives": "measured_text",
    "range": "range_text", "seeds": "runs",
}  # fmt: skip


def _claims(claims: Sequence[Mapping[str, Any]], simulated: bool) -> Iterator[str]:
    yield "## Claims\n"
    if not claims:
        yield "The experiment names no claims.\n"
        return
    columns = MODEL_COLUMNS if simulated else COLUMNS
    yield _cells(columns)
    yield _cells("---" for _ in columns)
    for row in claims:
        yield _cells(row.get(name, "") for name in columns.values())
    if simulated:
        yield (
            "\nA range is over seeds; of what follows from other claims it is over these, and of how far seeds lie"
            " apart over the points of a sweep. There are no verdicts. `series/claims.json` and `series/report.html`"
            " say what can come out.\n"
        )
        return
    yield "\nAll of them, with reasons and A/A floors, are in `series/claims.json` and `series/report.html`.\n"


def _inside() -> Iterator[str]:
    yield "## What is where\n"
    yield from (
        "- `series/report.html`: everything on one page; `series/figures/`: each figure and its data",
        "- of a comparison `series/comparison.html`: its answer; `beside/`: what its A/A floor takes from other series",
        "- `series/runs/<run>/`: the raw lines of workers and machines, events, decisions, daemons' logs, `run.json`",
        "- `series/tables/<table>.parquet/`: the tables; what their columns mean is in `tables.txt`",
        "- `specs/`: the experiment as it was run, and each run's topology as it was submitted (Flux YAML)",
        "- `environment.json`: of each run commit, versions, the harness's machine, the workers' machines, clocks",
        "- `source/`: the code that ran it; `code/`: the code that made tables, figures and report",
        "- `requirements.txt`: all pinned packages; `requirements-analysis.txt`: those that re-making needs\n",
    )


def _runs(facts: EnvironmentFacts) -> Iterator[str]:
    yield "## Runs\n"
    yield "| run | variant | status | why |\n|---|---|---|---|"
    for run_id, run in facts.runs.items():
        failure = run.get("failure") or {}
        reason = f"{failure['blame']}: {failure['message']}" if failure else ""
        yield _cells((run_id, (run.get("variant") or {}).get("name", ""), run.get("status", "no record"), reason))
    yield ""


def _environment(facts: EnvironmentFacts) -> Iterator[str]:
    """Yield values that all runs share once; they may differ in a series that was resumed elsewhere."""
    yield "## Environment\n"
    facts_by_name: dict[str, set[str]] = {}
    for run_id, run in facts.runs.items():
        versions = {**(run.get("versions") or {}), **({"java": facts.java[run_id]} if run_id in facts.java else {})}
        box = {name: value for name, value in (run.get("harness_facts") or {}).items() if name != "load_1min"}
        for name, value in {**versions, **box, "workers' machines": _machines(run.get("machines") or {})}.items():
            facts_by_name.setdefault(name, set()).add(str(value))
    yield from (f"- {name}: {'; '.join(sorted(values))}" for name, values in facts_by_name.items())
    tools = facts.analysed.get("versions") or {}
    yield f"- analysed with {', '.join(f'{name} {version}' for name, version in tools.items()) or 'unknown versions'}\n"


def _machines(machines: Mapping[str, Mapping[str, Any]]) -> str:
    counts: dict[str, int] = {}
    for facts in machines.values():
        kind = ", ".join(f"{facts[key]} {unit}" for key, unit in (("cores", "cores"), ("memory_mb", "MB"),
                         ("bandwidth_mbit", "Mbit/s"), ("slots", "slots")) if facts.get(key) is not None)  # fmt: skip
        counts[kind] = counts.get(kind, 0) + 1
    return " + ".join(f"{number} of {kind}" for kind, number in counts.items()) or "not known"


def _code(sources: Sequence[str]) -> Iterator[str]:
    yield "## Code\n"
    yield from (f"- {line}" for line in sources)
    yield ""


def _not_inside(content: ReadmeContent) -> Iterator[str]:
    yield "## What is not in it\n"
    for name, reason in sorted(content.left_out.items()):
        yield f"- `{name}`: {reason}"
    if not content.left_out:
        yield "- nothing of the series was left out"
    if content.homes:
        remainder = "" if len(content.homes) <= HOMES_SHOWN else f" and {len(content.homes) - HOMES_SHOWN} more"
        homes = ", ".join(f"`{name}`" for name in content.homes[:HOMES_SHOWN])
        yield f"- logs are as they were written, and name folders in somebody's home: {homes}{remainder}"


def _cells(values: Iterable[Any]) -> str:
    return f"| {' | '.join(' '.join(str(value).split()).replace('|', chr(92) + '|') for value in values)} |"
