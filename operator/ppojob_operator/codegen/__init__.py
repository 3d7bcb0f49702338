"""Files that are made from the models: the CRD and the reference pages. `python -m ppojob_operator.codegen`."""
