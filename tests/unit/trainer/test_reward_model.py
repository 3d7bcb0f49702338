"""What is decided of a reward model's training without torch: settings, batches, pairs, checkpoints."""

from pathlib import Path
from typing import Any

import pytest

from ppojob_trainer.errors import ConfigError, DataError
from ppojob_trainer.stages.conversations import Conversation, prompt_of, require_padding, require_template
from ppojob_trainer.stages.reward import checkpoints
from ppojob_trainer.stages.reward.pairs import Counts, fitting, usable
from ppojob_trainer.stages.reward.settings import Batches, RewardSettings, batches

SETTINGS: dict[str, Any] = {
    "term": "preference",
    "model": "/models/base",
    "trustRemoteCode": False,
    "train": ["/data/pairs.parquet"],
    "validation": [],
    "maxLength": 8,
    "epochs": 1,
    "maxSteps": None,
    "batchSize": 64,
    "microBatchSizePerDevice": 8,
    "learningRate": 1e-5,
    "lora": {"rank": 16, "alpha": 32, "targetModules": ["q_proj"]},
    "saveSteps": 100,
    "seed": 42,
    "minimumAccuracy": 0.6,
}
PROMPT = [{"role": "user", "content": "Hi"}]


def settings(**changes: Any) -> RewardSettings:
    return RewardSettings.from_json(SETTINGS | changes)


def test_settings_are_read() -> None:
    found = settings()
    assert (found.lora and found.lora.target_modules, found.minimum_accuracy) == (("q_proj",), 0.6)
    assert settings(lora=None).lora is None


@pytest.mark.parametrize("field", sorted(SETTINGS))
def test_every_setting_is_needed(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        RewardSettings.from_json({name: value for name, value in SETTINGS.items() if name != field})


@pytest.mark.parametrize(
    ("batch", "micro", "devices", "expected"),
    [
        (64, 8, 1, Batches(8, 8)),
        (64, 8, 8, Batches(8, 1)),
        (64, 100, 4, Batches(16, 1)),
        (64, 7, 2, Batches(4, 8)),
        (14, 4, 2, Batches(1, 7)),
        (2, 8, 2, Batches(1, 1)),
    ],
)
def test_batches_multiply_to_what_was_asked_for(batch: int, micro: int, devices: int, expected: Batches) -> None:
    found = batches(settings(batchSize=batch, microBatchSizePerDevice=micro), devices)
    assert found == expected
    assert found.per_device * found.accumulation * devices == batch


@pytest.mark.parametrize(("batch", "devices"), [(64, 3), (1, 2)])
def test_a_batch_that_devices_cannot_share_is_refused(batch: int, devices: int) -> None:
    with pytest.raises(ConfigError, match=rf"batchSize {batch} .* {devices} devices"):
        batches(settings(batchSize=batch), devices)


def row(chosen: Any = "good", rejected: Any = "bad", prompt: Any = PROMPT) -> dict[str, Any]:
    return {"prompt": prompt, "chosen": chosen, "rejected": rejected}


def words(talks: list[Conversation]) -> list[list[int]]:
    """One token for each character of the messages, white space at their ends stripped as templates do."""
    return [[ord(letter) for message in talk for letter in message["content"].strip()] for talk in talks]


def kept(rows: list[dict[str, Any]], max_length: int = 8) -> tuple[list[tuple[str, str]], Counts]:
    counts = Counts()
    found = fitting(list(usable(rows, "p.parquet", 1, counts)), words, max_length, counts)
    return [("".join(map(chr, chosen)), "".join(map(chr, rejected))) for chosen, rejected in found], counts


def test_pairs_become_conversations() -> None:
    assert kept([row()])[0] == [("Higood", "Hibad")]
    assert kept([row(prompt="Hi")])[0] == [("Higood", "Hibad")]


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (row(chosen=""), "empty"),
        (row(rejected="  \n"), "empty"),
        (row(chosen=None), "empty"),
        (row(prompt=[]), "empty"),
        (row(chosen="same", rejected="same"), "identical"),
        (row(chosen="same", rejected="same "), "identical"),
        (row(chosen="far too long"), "tooLong"),
        (row(rejected="far too long"), "tooLong"),
    ],
)
def test_what_cannot_be_used_is_counted_and_named(bad: dict[str, Any], kind: str) -> None:
    found, counts = kept([row(), bad, row()])
    assert len(found) == counts.kept == 2
    assert (counts.rows, dict(counts.left_out), counts.named) == (3, {kind: 1}, {kind: ["p.parquet row 2"]})
    assert Counts.from_json(counts.to_json()) == counts


def test_of_many_bad_rows_the_first_are_named() -> None:
    _, counts = kept([row(chosen="")] * 1000)
    assert (counts.left_out["empty"], len(counts.named["empty"])) == (1000, 20)


@pytest.mark.parametrize(
    ("bad", "words_"),
    [
        (row(prompt=7), "row 1, column prompt"),
        (row(prompt=None), "row 1, column prompt"),
        (row(prompt=[{"role": "user"}]), "row 1, column prompt"),
        (row(chosen=[{"role": "assistant", "content": "x"}]), "row 1, column chosen"),
        (row(rejected=1), "row 1, column rejected"),
    ],
)
def test_what_is_no_pair_ends_the_stage(bad: dict[str, Any], words_: str) -> None:
    with pytest.raises(DataError, match=words_):
        kept([bad])


def test_a_prompt_keeps_its_turns() -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "other": 1}]
    assert prompt_of(turns) == [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


class Tokenizer:
    chat_template: str | None = None
    pad_token_id: int | None = None

    def __init__(self, end: int | None) -> None:
        self.end = end
        self.eos_token = "end"

    @property
    def pad_token(self) -> str:
        raise AssertionError

    @pad_token.setter
    def pad_token(self, _: str) -> None:
        self.pad_token_id = self.end


def test_the_end_token_pads_where_there_is_none() -> None:
    tokenizer = Tokenizer(7)
    require_padding(tokenizer, "m")
    assert tokenizer.pad_token_id == 7
    with pytest.raises(ConfigError, match="neither a padding nor an end token"):
        require_padding(Tokenizer(None), "m")


def test_a_tokenizer_without_a_template_is_refused() -> None:
    with pytest.raises(ConfigError, match="chat template"):
        require_template(Tokenizer(7), "m")


def checkpoint(folder: Path, step: int) -> Path:
    path = folder / f"checkpoint-{step}"
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "weights").write_text("w")
    return path


def test_only_a_sealed_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    """As after a kill while the newest was written."""
    for step in (5, 10):
        checkpoints.seal(checkpoint(tmp_path, step), step)
    unfinished, other = checkpoint(tmp_path, 15), tmp_path / "runs"
    other.mkdir()
    assert checkpoints.newest(tmp_path) == tmp_path / "checkpoint-10"
    assert not unfinished.exists()
    assert other.exists()
    assert (tmp_path / "checkpoint-5").exists()


def test_without_a_checkpoint_training_begins(tmp_path: Path) -> None:
    assert checkpoints.newest(tmp_path / "absent") is None
    checkpoint(tmp_path, 5)
    assert checkpoints.newest(tmp_path) is None
