"""From a checkpoint of verl's to a model that transformers loads."""
