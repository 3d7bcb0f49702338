"""What the operator and the trainer have agreed on: names, files, figures and the monitor's answers.

Standard library only, because both images carry it and neither may impose its dependencies on the other.
Nothing here decides anything; it says how things are called and what they look like on disk and on the wire.
"""
