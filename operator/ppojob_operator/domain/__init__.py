"""Pure decisions: values in, values out, no I/O and no clock."""
