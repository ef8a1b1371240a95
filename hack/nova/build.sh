#!/bin/sh
# build.sh <folder>: makes a virtualenv in <folder> with a newer Nova than Debian's, from PyPI. Needs python3 with its venv module; says on standard output what it is
# doing. The caller sees to it that a folder that was left half made is not taken for a result.
set -eu
here=$(cd "$(dirname "$0")" && pwd) into=$1
echo "making a virtualenv"
python3 -m venv "$into" >&2
echo "fetching Nova from PyPI"
# Only what the file names, and no package that would have to run code to be built.
"$into/bin/python" -m pip install --no-deps --require-hashes --only-binary :all: --no-input --disable-pip-version-check --quiet --requirement "$here/requirements.txt" >&2
# Where Nova's fixtures look for the configuration of its API: beside its library.
for library in "$into"/lib/python3.*/site-packages; do ln -s ../../../etc "$library/etc"; done
