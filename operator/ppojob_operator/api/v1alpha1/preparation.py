"""`PPOJob.spec.data.prepare`: raw files or hub data sets, made into Parquet with verl's columns."""

from typing import Annotated

from pydantic import ConfigDict, Field

from ppojob_contract.preparation import Hub, Recipe, Use
from ppojob_operator.api.v1alpha1.base import Count, Model, Name, ObjectName, Path, Text, Whole, list_map, rules


class PrepareFunction(Model):
    """A user's Python function, run in trainer pods only."""

    config_map: ObjectName = Field(description="ConfigMap in the job's namespace that holds the file")
    key: Annotated[str, Field(min_length=4, max_length=253, pattern=r"^[-._a-zA-Z0-9]+\.py$")] = Field(
        default="prepare.py", description="The ConfigMap's key, a Python file"
    )
    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        default="convert", description="Called with each raw row; see docs/data-preparation.md for what it returns"
    )


class PrepareSource(Model):
    """Rows of one kind."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(self.recipe == 'Function') == has(self.__function__)",
                "function goes with recipe Function, and only with it",
                ".function",
            ),
            ("self.recipe != 'Pairs' || !has(self.use) || self.use == 'Pairs'", "recipe Pairs gives pairs", ".use"),
            (
                "!(self.recipe in ['GSM8K', 'Prompts']) || !has(self.use) || self.use == 'Prompts'",
                "this recipe gives prompts only",
                ".use",
            ),
        )
    )
    name: Name = Field(description="Becomes the rows' data_source")
    recipe: Recipe = Field(
        description="GSM8K: question, answer; HHRLHF: chosen and rejected dialogues; Prompts: a column with prompts; "
        "Pairs: prompt, chosen, rejected; Function: a function of yours"
    )
    files: Annotated[list[Path], Field(min_length=1, max_length=64)] = Field(
        description="JSON lines (also .gz) or Parquet, absolute paths in the trainer's pods; or names of a hub"
    )
    hub: Hub = Field(default=Hub.HUGGING_FACE, description="Where names that are no paths are looked up")
    configuration: Text | None = Field(
        default=None, description="Of a data set on a hub that has several, such as main of openai/gsm8k"
    )
    split: Text = Field(default="train", description="Of a data set on a hub")
    revision: Text | None = Field(
        default=None, description="Branch, tag or commit of a data set on a hub; default: its newest state"
    )
    use: Use | None = Field(
        default=None, description="What the rows are for; default: Both for HHRLHF, else what the recipe gives"
    )
    prompt_column: Text = Field(default="prompt", description="Of recipe Prompts")
    answer_column: Text = Field(default="answer", description="Ground truth, of recipe Prompts, where it is there")
    ability: Text | None = Field(default=None, description="verl's column of that name; default: the source's name")
    max_rows: Count | None = Field(default=None, description="Only the first so many rows")
    function: PrepareFunction | None = Field(default=None, description="Of recipe Function")


class Prepare(Model):
    """Data preparation, a stage of its own before training."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.sources.exists(item, has(item.use) ? item.use != 'Pairs' : item.recipe != 'Pairs')",
                "at least one source must give prompts: the run is trained on them",
                ".sources",
            ),
        )
    )
    sources: Annotated[list[PrepareSource], Field(min_length=1, max_length=16, json_schema_extra=list_map("name"))] = (
        Field(description="What to read")
    )
    validation_fraction: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.05, description="Of the rows, chosen by data.seed, kept out of training"
    )
    validation_max_rows: Count | None = Field(default=None, description="At most so many of them")
    max_bad_rows: Whole = Field(
        default=0, description="Rows that cannot be read before the stage fails; they are listed in any case"
    )
    revision: Annotated[str, Field(max_length=63)] = Field(
        default="", description="Another value prepares anew, although nothing else changed (files were replaced)"
    )
