"""Curves of a recorded run as SVG, for docs/guardrails.md: `python -m tests.bench.curves`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ppojob_contract.journal import Row, RowKind

ROOT = Path(__file__).resolve().parents[2]
JOURNALS, PICTURES = ROOT / "tests" / "data" / "journals", ROOT / "docs" / "pictures"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 300, 56, 20, 40, 40
COLOURS = ("#b5482f", "#2f6db5")

Points = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Axes:
    """Where a step and a value are on the picture."""

    last_step: int
    highest: float

    def x(self, step: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * step / self.last_step, 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.highest, 1)


def picture(title: str, attempts: Sequence[Points], *, target: int, bound: float | None = None) -> str:
    """One curve for each attempt, an arrow from the breach back to the checkpoint, and the guardrail's bound."""
    values = [value for points in attempts for _, value in points]
    axes = Axes(max(step for points in attempts for step, _ in points), 1.08 * max([*values, bound or 0.0]))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(LEFT, 22, title, size=15),
        *_grid(axes),
    ]
    if bound is not None:
        parts += [_line((axes.x(0), axes.y(bound)), (axes.x(axes.last_step), axes.y(bound)), "#888", dashes="6 4")]
        parts += [_text(axes.x(axes.last_step) - 90, axes.y(bound) - 5, f"above {bound:g}: bad", colour="#666")]
    for number, points in enumerate(attempts, start=1):
        colour = COLOURS[(number - 1) % len(COLOURS)]
        path = " ".join(f"{axes.x(step)},{axes.y(value)}" for step, value in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        step, value = points[-1]
        beside = min(axes.x(step) + 6, WIDTH - RIGHT - 58)
        parts.append(_text(beside, axes.y(value) - 8, f"attempt {number}", colour=colour))
    return "\n".join([*parts, *_way_back(axes, attempts[0][-1], target), "</svg>", ""])


def _way_back(axes: Axes, end: tuple[int, float], target: int) -> list[str]:
    x, back, y = axes.x(end[0]), axes.x(target), TOP - 4
    return [
        _line((x, axes.y(end[1])), (x, y), "#444", dashes="2 3"),
        _line((x, y), (back, y), "#444"),
        _line((back, y), (back, HEIGHT - BOTTOM), "#444", dashes="2 3"),
        f'<path d="M{back} {y + 10}l-4 -8h8z" fill="#444"/>',
        _text(back + 6, y + 14, f"rolled back to step {target}", colour="#444"),
    ]


def _grid(axes: Axes) -> Iterable[str]:
    for part in range(5):
        value = axes.highest * part / 4
        yield _line((LEFT, axes.y(value)), (WIDTH - RIGHT, axes.y(value)), "#e5e5e5")
        yield _text(8, axes.y(value) + 4, f"{value:.2f}", colour="#666")
    for step in range(0, axes.last_step + 1, 5):
        yield _text(axes.x(step) - 6, HEIGHT - 20, str(step), colour="#666")
    yield _text(WIDTH - 60, HEIGHT - 5, "step", colour="#666")


def _line(start: tuple[float, float], end: tuple[float, float], colour: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" stroke="{colour}"{dashed}/>'


def _text(x: float, y: float, text: str, *, colour: str = "#222", size: int = 12) -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" font-size="{size}">{text}</text>'


def recorded(figure: str) -> list[Points]:
    """Of each attempt of the recorded run."""
    found: list[Points] = []
    for path in sorted(JOURNALS.glob("rollback-*.jsonl")):
        rows = [Row.from_json(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        found.append([(row.step, row.figures[figure]) for row in rows if row.kind is RowKind.STEP])
    return found


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    kl, reward = recorded("kl"), recorded("rewardMean")
    target = kl[1][0][0] - 1
    pictures = {
        "rollback-kl.svg": picture("kl: the policy runs away from its reference", kl, target=target, bound=0.2),
        "rollback-reward.svg": picture("rewardMean of the same run", reward, target=target),
    }
    for name, text in pictures.items():
        (PICTURES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
