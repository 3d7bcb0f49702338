# mypy: disable-error-code="import, misc, no-untyped-call, attr-defined"
"""Answers by vLLM, on the devices of this process."""

from transformers import AutoConfig
from vllm import LLM, SamplingParams, TokensPrompt

from ppojob_trainer.stages.evaluate.settings import EvaluateSettings


class VllmGenerator:
    """A `generation.Generator`."""

    def __init__(self, settings: EvaluateSettings, model: str, turns: int) -> None:
        config = AutoConfig.from_pretrained(model, trust_remote_code=settings.trust_remote_code).get_text_config()
        needed = turns * (settings.max_prompt_length + settings.max_response_length)
        self.settings = settings
        self.engine = LLM(
            model=model,
            trust_remote_code=settings.trust_remote_code,
            tensor_parallel_size=settings.tensor_parallel_size,
            # This process has its devices; vLLM would look for others in the placement group that it is in.
            distributed_executor_backend="mp" if settings.tensor_parallel_size > 1 else None,
            gpu_memory_utilization=settings.memory_fraction,
            max_model_len=min(needed, config.max_position_embeddings),
            dtype="bfloat16",
            seed=settings.seed,
            generation_config="vllm",  # plain sampling, not what the model's own configuration has: as in training
        )

    def generate(self, prompts: list[list[int]], seed: int) -> list[list[int]]:
        sampling = [
            SamplingParams(
                temperature=self.settings.temperature,
                max_tokens=self.settings.max_response_length,
                seed=seed + place,
            )
            for place in range(len(prompts))
        ]
        asked = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
        found = self.engine.generate(asked, sampling, use_tqdm=False)
        ends = {self.engine.get_tokenizer().eos_token_id}
        return [[token for token in item.outputs[0].token_ids if token not in ends] for item in found]
