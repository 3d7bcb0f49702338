#!/usr/bin/env bash
# mutants.sh [MODULE...]: mutates modules of the domain (default: those where a wrong decision hurts most), one function at
# a time, and runs the quick tests that reach it. Works on a copy in build/mutants; mutmut is installed into it only.
# What survived: build/mutants/survivors.txt; the table with reasons: docs/mutation.md. TESTS names other tests.
set -euo pipefail
version=3.8.1
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python place=$PWD/build/mutants
modules=("$@")
[ $# -gt 0 ] || modules=(carry_out counters decide hot judgement lineage parameters provision rollback start supervise targets transitions)

mkdir -p "$place"
[ -d "$place/lib/mutmut-$version.dist-info" ] || "$python" -m pip install -q --no-deps --target "$place/lib" \
  "mutmut==$version" click coverage libcst setproctitle
rm -rf "$place/src" "$place/tests" "$place/docs" "$place/mutants"  # its memory of what covers what does not notice new functions
mkdir -p "$place/src"
cp -r operator/ppojob_operator operator/ppojob_contract "$place/src"
cp -r tests docs "$place"
{
  printf '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib", "-p", "no:cacheprovider"]\npythonpath = ["."]\n'
  printf 'asyncio_mode = "auto"\nasyncio_default_fixture_loop_scope = "function"\n'
  printf '[tool.mutmut]\nsource_paths = ["src"]\nalso_copy = ["docs"]\nonly_mutate = ['
  printf '"src/ppojob_operator/domain/%s.py", ' "${modules[@]}"
  printf ']\npytest_add_cli_args_test_selection = ['
  # What compares pages with the source does not know the mutated source.
  printf '"--ignore-glob=*/test_*_page.py", '
  printf '"%s", ' ${TESTS:-tests/unit/domain tests/unit/controller}
  printf ']\n'
} > "$place/pyproject.toml"
cd "$place"
export HYPOTHESIS_PROFILE=mutants PYTHONPATH=$place/lib
nice "$python" -m mutmut run --max-children "${JOBS:-2}" || true
nice "$python" -m mutmut results | tee survivors.txt
