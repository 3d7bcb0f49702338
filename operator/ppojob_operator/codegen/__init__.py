"""Generated files: `python -m ppojob_operator.codegen [--check]`."""
