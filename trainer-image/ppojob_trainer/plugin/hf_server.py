# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""A rollout server that samples with transformers' own model: tokens in, tokens out, for small models on processors."""

import asyncio
import os
from dataclasses import dataclass
from typing import Any

import ray
import torch
from transformers import AutoModelForCausalLM
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import HFModelConfig
from verl.workers.rollout.replica import TokenOutput

GATHER_SECONDS = 0.01
"""How long a batch waits for more requests: the agent loops send a step's prompts one by one."""

GREEDY_BELOW = 1e-5
"""Temperature."""


@dataclass(slots=True)
class Request:
    """One prompt to answer."""

    prompt: list[int]
    limit: int
    """Most new tokens."""
    temperature: float
    answer: "asyncio.Future[TokenOutput]"


class HFServer:
    """The Ray actor; verl calls its methods by name (verl `workers/rollout/replica.py`)."""

    def __init__(self, config: Any, model_config: Any, seed: int) -> None:
        self.config = omega_conf_to_dataclass(config)
        model = omega_conf_to_dataclass(model_config, dataclass_type=HFModelConfig)
        self.model = AutoModelForCausalLM.from_config(model.hf_config, dtype=torch.float32).eval()
        self.vocabulary = len(model.tokenizer)
        self.padding = model.tokenizer.pad_token_id or 0
        self.ends = _end_tokens(self.model, model.tokenizer, ignore=self.config.ignore_eos)
        self.generator = torch.Generator().manual_seed(seed)
        self.version: int | None = None
        self.requests: asyncio.Queue[Request] = asyncio.Queue()
        self.open = asyncio.Event()
        self.open.set()
        self.rejecting = False
        self.worker: asyncio.Task[None] | None = None

    async def address(self) -> str:
        """Unique name of this server for the load balancer."""
        return f"{ray.util.get_node_ip_address()}:hf-{os.getpid()}"

    async def load_weights(self, weights: list[tuple[str, Any]], version: int | None) -> None:
        """Takes the actor's weights (numpy arrays). Raises KeyError for a name that this model has not."""
        # Tied weights under all their names: the actor sends the output layer also where it is the embedding.
        own = {**dict(self.model.named_parameters(remove_duplicate=False)), **dict(self.model.named_buffers())}
        with torch.no_grad():
            for name, value in weights:
                own[name].copy_(torch.tensor(value))
        self.version = self.version if version is None else version  # verl names none after a validation

    async def generate(
        self, prompt_ids: list[int], sampling_params: dict[str, Any], request_id: str, **_: Any
    ) -> TokenOutput:
        """One response; while generation is held up it waits, or comes back empty where that was asked for."""
        del request_id
        if self.rejecting:
            return TokenOutput(
                token_ids=[], log_probs=[], stop_reason="aborted", extra_fields={"global_steps": self.version}
            )
        await self.open.wait()
        if self.worker is None:
            self.worker = asyncio.create_task(self._answer_for_ever())
        answer: asyncio.Future[TokenOutput] = asyncio.get_running_loop().create_future()
        room = self.config.prompt_length + self.config.response_length - len(prompt_ids)
        asked = sampling_params.get("max_tokens") or sampling_params.get("max_new_tokens")
        request = Request(
            prompt=list(prompt_ids),
            limit=int(asked or min(self.config.response_length, room)),
            temperature=float(sampling_params.get("temperature", 1.0)),
            answer=answer,
        )
        await self.requests.put(request)
        return await answer

    async def abort_all_requests(self, reject_request: bool = False) -> dict[str, Any]:
        """Holds new requests up, or rejects them; the batch under way is short and ends by itself."""
        self.rejecting = reject_request
        self.open.clear()
        return {"aborted_count": 0, "request_ids": []}

    async def resume_generation(self) -> None:
        self.rejecting = False
        self.open.set()

    async def wake_up(self, tags: list[str] | None = None) -> None:
        """Nothing to wake: weights stay in memory. The same for the calls below."""

    async def sleep(self) -> None: ...

    async def clear_kv_cache(self) -> None: ...

    async def release_kv_cache(self) -> None: ...

    async def resume_kv_cache(self) -> None: ...

    async def start_profile(self, **_: Any) -> None: ...

    async def stop_profile(self) -> None: ...

    async def _answer_for_ever(self) -> None:
        while True:
            batch = [await self.requests.get()]
            await asyncio.sleep(GATHER_SECONDS)
            while not self.requests.empty() and len(batch) < self.config.max_num_seqs:
                batch.append(self.requests.get_nowait())
            try:
                outputs = await asyncio.to_thread(self._sample, batch)
            except Exception as error:
                for request in batch:
                    request.answer.set_exception(error)
                continue
            for request, output in zip(batch, outputs, strict=True):
                request.answer.set_result(output)

    @torch.inference_mode()
    def _sample(self, batch: list[Request]) -> list[TokenOutput]:
        """Left-padded prompts, one token a turn for all that have not ended."""
        width = max(len(request.prompt) for request in batch)
        tokens = torch.full((len(batch), width), self.padding)
        mask = torch.zeros((len(batch), width), dtype=torch.long)
        for row, request in enumerate(batch):
            tokens[row, width - len(request.prompt) :] = torch.tensor(request.prompt)
            mask[row, width - len(request.prompt) :] = 1
        temperatures = torch.tensor([request.temperature for request in batch]).unsqueeze(1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        answers: list[list[int]] = [[] for _ in batch]
        log_probs: list[list[float]] = [[] for _ in batch]
        running = {row for row, request in enumerate(batch) if request.limit > 0}
        cache = None
        while running:
            output = self.model(
                input_ids=tokens, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
            )
            cache = output.past_key_values
            chosen, log_prob = self._choose(output.logits[:, -1].float(), temperatures)
            for row in sorted(running):
                token = int(chosen[row])
                answers[row].append(token)
                log_probs[row].append(float(log_prob[row]))
                if token in self.ends or len(answers[row]) >= batch[row].limit:
                    running.discard(row)
            tokens = chosen.unsqueeze(1)
            mask = torch.cat([mask, torch.ones((len(batch), 1), dtype=torch.long)], dim=1)
            positions = mask.sum(1, keepdim=True) - 1
        return [
            TokenOutput(
                token_ids=answers[row],
                log_probs=log_probs[row],
                stop_reason="completed",
                extra_fields={"global_steps": self.version},
            )
            for row in range(len(batch))
        ]

    def _choose(self, logits: torch.Tensor, temperatures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        greedy = temperatures < GREEDY_BELOW
        logits = logits / torch.where(greedy, torch.ones_like(temperatures), temperatures)
        logits[:, self.vocabulary :] = -torch.inf
        distribution = torch.log_softmax(logits, dim=-1)
        sampled = torch.multinomial(distribution.exp(), 1, generator=self.generator)
        chosen = torch.where(greedy, distribution.argmax(-1, keepdim=True), sampled)
        return chosen.squeeze(1), distribution.gather(1, chosen).squeeze(1)


def _end_tokens(model: Any, tokenizer: Any, *, ignore: bool) -> set[int]:
    if ignore:
        return set()
    end = model.generation_config.eos_token_id if model.generation_config else None
    end = tokenizer.eos_token_id if end is None else end
    return set(end) if isinstance(end, list | tuple) else {end}
