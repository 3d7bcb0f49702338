"""A real single-node Kubernetes for development and CI, built from Go modules and Debian packages, without Docker.

Standard library only: it has to run with the system's Python before any virtual environment exists.
"""
