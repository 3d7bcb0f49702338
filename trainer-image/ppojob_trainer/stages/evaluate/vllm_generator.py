# mypy: disable-error-code="import, misc, no-untyped-call, attr-defined"
"""Answers by vLLM, on the devices of this process."""

from vllm import LLM, SamplingParams, TokensPrompt

from ppojob_trainer.stages.evaluate.settings import EvaluateSettings


class VllmGenerator:
    """An `answering.Generator`."""

    def __init__(self, settings: EvaluateSettings, model: str) -> None:
        self.settings = settings
        self.engine = LLM(
            model=model,
            trust_remote_code=settings.trust_remote_code,
            tensor_parallel_size=settings.tensor_parallel_size,
            # This process has its devices; vLLM would look for others in the placement group that it is in.
            distributed_executor_backend="mp" if settings.tensor_parallel_size > 1 else None,
            gpu_memory_utilization=settings.memory_fraction,
            max_model_len=-1,  # the model's own, or what there is memory for
            dtype="bfloat16",
            seed=settings.seed,
            generation_config="vllm",  # plain sampling, not what the model's own configuration has: as in training
        )
        self.limit = self.engine.model_config.max_model_len

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
