"""A plan as tables: what is held, what each phase adds, and where a step's seconds go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console

from taut.checks.memory import MemoryPlan, Phase, size
from taut.terminal.tables import plain_table

if TYPE_CHECKING:
    from taut.launch.plan import Plan


def print_plan(plan: Plan, console: Console) -> None:
    for name, memory in plan.memory.items():
        console.print(
            f"Memory of {'the' if len(plan.memory) == 1 else 'a'} {name}, at most, beside the libraries' own"
        )
        _print_memory(memory, console)
    _print_time(plan, console)


def _print_memory(plan: MemoryPlan, console: Console) -> None:
    table = plain_table("", "", "bytes", right=("bytes",))
    for phase in (plan.held, *sorted(plan.phases, key=lambda phase: -phase.bytes)):
        shown = "all the time" if phase is plan.held else f"+ {phase.name}"
        table.add_row(
            shown, "" if phase is plan.held else _most(phase, plan), size(phase.bytes), style="bold"
        )
        for term in phase.terms:
            table.add_row(f"  {term.name}", term.formula, size(term.bytes), style=_style(phase, plan))
    table.add_row("peak", f"mostly {plan.dominant.name}", size(plan.peak), style="bold")
    console.print(table)


def _most(phase: Phase, plan: MemoryPlan) -> str:
    return "the most" if phase is plan.fullest else "not at the same time"


def _style(phase: Phase, plan: MemoryPlan) -> str:
    return "" if phase in (plan.held, plan.fullest) else "dim"


def _print_time(plan: Plan, console: Console) -> None:
    total = sum(phase.seconds for phase in plan.time)
    machine = f"{plan.machine.flops / 1e12:.3g} · 10¹² operations and {plan.machine.bandwidth / 1e9:.3g} · 10⁹ bytes"
    console.print(f"Time of a step, estimated from {machine} a second; without rewards and communication")
    table = plain_table("", "", "operations", "seconds", right=("operations", "seconds"))
    for phase in plan.time:
        table.add_row(phase.name, phase.formula, f"{phase.flops:.2g}", f"{phase.seconds:.3g}")
    longest = max(plan.time, key=lambda phase: phase.seconds)
    table.add_row("step", f"mostly {longest.name}", "", f"{total:.3g}", style="bold")
    console.print(table)


def plan_object(plan: Plan) -> dict[str, Any]:
    """For --json: bytes, operations, seconds."""
    return {
        "memory": {
            name: {
                "peak": memory.peak,
                "held": _terms(memory.held),
                "phases": {phase.name: _terms(phase) for phase in memory.phases},
                "fullest": memory.fullest.name,
                "dominant": memory.dominant.name,
            }
            for name, memory in plan.memory.items()
        },
        "time": {phase.name: {"operations": phase.flops, "seconds": phase.seconds} for phase in plan.time},
        "machine": {"flops": plan.machine.flops, "bandwidth": plan.machine.bandwidth},
    }


def _terms(phase: Phase) -> dict[str, int]:
    return {term.name: term.bytes for term in phase.terms}
