#!/usr/bin/env bash
# setup.sh PYTHON VENV: the development environment. verl comes without its dependencies: only its configuration files
# are read here (tests/contract); training runs in the trainer image.
set -euo pipefail
python=$1 venv=$2

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Python 3.11 or newer is needed: set PYTHON=/path/to/python3.11" >&2
  exit 1
}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv
  else
    echo "Python's venv module is needed (Debian: apt-get install python3-venv)" >&2
    exit 1
  fi
fi
echo "setting up $venv (about 30 s the first time)"
"$python" -m venv "$venv"
"$venv/bin/pip" install -q --require-hashes -r tests/requirements.txt
"$venv/bin/pip" install -q --no-deps verl==0.9.1
rm -rf "$venv"/lib/python3*/site-packages/tests  # of verl's wheel; would hide ours
