"""The task runner with the aids put into its trainer."""

from typing import Any

import aids

from ppojob_trainer.runner import JobRunner


class AidedRunner(JobRunner):  # type: ignore[misc]
    def run(self, config: Any) -> Any:
        import ppojob_trainer.trainer

        aids.aid(ppojob_trainer.trainer.JobTrainer)
        return super().run(config)
