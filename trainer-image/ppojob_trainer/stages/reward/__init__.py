"""The Bradley-Terry reward model: pairs of answers in, a sequence-classification model out."""
