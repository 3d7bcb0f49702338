"""From raw files and data sets of hubs to the Parquet that verl and the reward model's training read."""
