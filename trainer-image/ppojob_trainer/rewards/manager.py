# mypy: disable-error-code="import, misc, no-untyped-call, attr-defined, union-attr, arg-type"
"""verl's end of the rewards: what its reward workers call for each response.

verl's own manager (`experimental/reward_loop/reward_manager/naive.py`) gives a reward function neither the conversation
nor the response's length in tokens; this one does. It runs in the reward workers of `reward_loop.py`, which would ask
the reward engine themselves unless `reward.custom_reward_function` is set, too.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from ppojob_trainer.rewards.answers import Answer
from ppojob_trainer.rewards.terms import decode, total

THREADS = 32
"""Responses that are scored at a time in one process: they wait for functions, models and the engine."""


def compute_score(answer: Answer, engine_address: str | None, *, terms: str) -> dict[str, float | str]:
    """`reward.custom_reward_function`; verl adds `terms`, which is what `terms.encode` made."""
    return total(decode(terms, engine_address), answer)


class JobRewardManager(RewardManagerBase):
    """`reward.reward_manager`."""

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any,
        reward_router_address: str | None = None,
        reward_model_tokenizer: Any = None,  # noqa: ARG002 - verl's signature
    ) -> None:
        super().__init__(config, tokenizer, compute_score)
        self._engine_address = reward_router_address
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="reward")

    async def run_single(self, data: Any) -> dict[str, Any]:
        """The last of a conversation's outputs is what is scored."""
        item = data[-1:][0]
        result = await asyncio.get_running_loop().run_in_executor(self._threads, self._score, item)
        return {"reward_score": result["score"], "reward_extra_info": result}

    def _score(self, item: Any) -> dict[str, float | str]:
        row, responses = item.non_tensor_batch, item.batch["responses"]
        tokens = int(item.batch["attention_mask"][-responses.shape[-1] :].sum())
        truth = row.get("reward_model")
        answer = Answer(
            response=self.tokenizer.decode(responses[:tokens], skip_special_tokens=True),
            ground_truth=truth.get("ground_truth") if isinstance(truth, dict) else None,
            data_source=row.get("data_source"),
            extra_info=_extra_info(row),
            prompt=list(row.get("raw_prompt", ())),
            tokens=tokens,
        )
        result: dict[str, float | str] = self.compute_score(answer=answer, engine_address=self._engine_address)
        return result


def _extra_info(row: Any) -> dict[str, Any]:
    """The row's own, and what verl adds for functions that were written for it."""
    given, tools = row.get("extra_info"), row.get("tool_extra_fields")
    return {
        **(given if isinstance(given, dict) else {}),
        **(tools if isinstance(tools, dict) else {}),
        "num_turns": row.get("__num_turns__"),
        "rollout_reward_scores": row.get("reward_scores", {}),
    }
