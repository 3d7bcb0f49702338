# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""verl's data set with the number of each row: what names a prompt in samples.

`data.custom_cls` names it. The numbers are given before long prompts are filtered out (verl
`utils/dataset/rl_dataset.py`, `_read_files_and_tokenize`), so that row N is the N-th of the files as they are listed.
"""

from typing import Any

from verl.utils.dataset.rl_dataset import RLHFDataset

ROW = "ppojob_row"


class NumberedRows(RLHFDataset):
    """Rows with a column `ROW`."""

    def maybe_filter_out_long_prompts(self, dataframe: Any = None) -> Any:
        return super().maybe_filter_out_long_prompts(dataframe.add_column(ROW, list(range(len(dataframe)))))
