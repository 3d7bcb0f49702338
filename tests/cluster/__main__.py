"""`python3 -m tests.cluster COMMAND`: a Kubernetes cluster for development and CI."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import images, lifecycle, status, targets, volumes
from .kubectl import Kubectl
from .progress import say
from .settings import Paths, paths
from .shell import ClusterError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="have a cluster with all addons (a fresh one unless it is up and healthy)")
    up.add_argument("--images", action="store_true", help="with this project's images in it")
    commands.add_parser("down", help="remove it; caches and images stay")
    commands.add_parser("status", help="print what there is; exit 1 unless all is well")
    commands.add_parser("build", help="only build the programs and the base image")
    commands.add_parser("env", help='print the exports for a shell: eval "$(python3 -m tests.cluster env)"')
    commands.add_parser("volumes", help="replace released volumes with empty ones")
    image = commands.add_parser("image", help="build an image of this project, load it, print its reference")
    image.add_argument("name", choices=sorted(images.PROJECT_IMAGES))
    image.add_argument("--no-load", action="store_true", help="do not load it into the cluster")
    load = commands.add_parser("load", help="load an image that buildah has into the cluster")
    load.add_argument("reference")
    return parser


def _execute(arguments: argparse.Namespace, where: Paths) -> int:
    match arguments.command:
        case "up":
            lifecycle.up(where, for_images=arguments.images)
            for name in images.NEEDED if arguments.images else ():
                print(images.project_image(where, name))
        case "down":
            lifecycle.down(where)
        case "build":
            lifecycle.build(where)
            images.base(where)
        case "status":
            table, well = status.status(where)
            print(table)
            return 0 if well else 1
        case "env":
            print(status.exports(where))
        case "volumes":
            kubeconfig = targets.kubeconfig(targets.choose(where), where)
            say(f"fresh volumes: {' '.join(volumes.refresh(Kubectl(where, kubeconfig), where)) or 'none needed'}")
        case "image":
            print(images.project_image(where, arguments.name, load=not arguments.no_load))
        case "load":
            print(images.load(where, arguments.reference))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors that a person can act on are printed as one message."""
    try:
        return _execute(_parser().parse_args(arguments), paths())
    except ClusterError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
