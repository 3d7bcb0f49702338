"""Export: a checkpoint as a model that transformers loads, with its card, where the user wants it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ppojob_contract.durable import write_json
from ppojob_contract.stages import StageResult
from ppojob_trainer.stages.context import StageContext
from ppojob_trainer.stages.export import card, placing
from ppojob_trainer.stages.export.settings import ExportSettings, Format


def run(context: StageContext) -> None:
    """Entry of the stage."""
    settings = ExportSettings.from_json(context.settings)
    origin = origin_of(context)
    if settings.target:
        placing.check(Path(settings.target), origin)  # before the work, not after it
    from ppojob_trainer.stages.export import merging  # noqa: PLC0415 - torch takes seconds

    finish(context, settings, merging.adapter if settings.format is Format.ADAPTER else merging.merge)


def finish(context: StageContext, settings: ExportSettings, write: Callable[..., Any]) -> None:
    """`write` is `merging.merge` or `merging.adapter`."""
    output, origin = context.output, origin_of(context)
    written = write(
        Path(settings.checkpoint),
        settings.model,
        output,
        trust_remote_code=settings.trust_remote_code,
        dtype=settings.dtype.value if settings.dtype else None,
        beat=context.check,
    )
    context.check()
    adapter = settings.format is Format.ADAPTER
    text = card.render(
        settings.card,
        model=settings.model,
        adapter=adapter,
        dtype=written.dtype,
        parameters=written.parameters,
        checkpoint=settings.checkpoint,
    )
    (output / "README.md").write_text(text, encoding="utf-8")
    write_json(output / placing.ORIGIN, origin)
    size = 0
    for path in output.iterdir():
        path.chmod(0o644)  # safetensors writes for the owner alone
        size += path.stat().st_size
    context.beat()
    if settings.target:
        placing.place(output, Path(settings.target), origin, context.config.run)
    where = f", at {settings.target}" if settings.target else ""
    kind = "LoRA adapter" if adapter else "model"
    message = f"{kind} of {written.parameters:,} parameters in {written.dtype}, {size / 1e6:,.1f} MB{where}"
    figures = {"sizeBytes": float(size), "parameters": float(written.parameters)}
    context.publish(StageResult(message=message, figures=figures))


def origin_of(context: StageContext) -> dict[str, Any]:
    """Who made an export: the same job with the same settings, in whatever run."""
    config = context.config
    return {"namespace": config.namespace, "name": config.name, "uid": config.uid, "key": config.key}
