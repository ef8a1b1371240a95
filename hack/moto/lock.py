#!/usr/bin/env python3
"""Prints requirements.txt: every package that is installed beside the Python that runs this, pinned, with the checksums of all its files on PyPI.

    python3 -m venv v && v/bin/pip install 'moto[ec2,server]==5.2.5' && v/bin/python hack/moto/lock.py > hack/moto/requirements.txt
"""

import re
import urllib.request
from importlib.metadata import distributions

# They come with a virtualenv and are not ours to pin.
FOUND_ANYWHERE = {"pip", "setuptools", "wheel"}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def checksums(name, version):
    page = urllib.request.urlopen(f"https://pypi.org/simple/{name}/", timeout=120).read().decode()
    for url, digest in re.findall(r'href="([^"#]+)#sha256=([0-9a-f]{64})"', page):
        file = url.rsplit("/", 1)[-1]
        # A file is named `<name>-<version>` and then `-<platform>.whl` or `.tar.gz`; the name's dashes may be underscores.
        match = re.match(r"(.+?)-(\d[^-]*?)(-.*\.whl|\.tar\.gz|\.zip)$", file)
        if match and normal(match[1]) == name and match[2] == version:
            yield digest


def main():
    print("# Written by hack/moto/lock.py; what `cargo xtask moto build` installs, without asking for anything else.")
    for name, version in sorted((normal(d.metadata["Name"]), d.version) for d in distributions()):
        if name in FOUND_ANYWHERE:
            continue
        digests = sorted(set(checksums(name, version)))
        if not digests:
            raise SystemExit(f"PyPI has no file of {name} {version}")
        print(" \\\n".join([f"{name}=={version}"] + [f"    --hash=sha256:{digest}" for digest in digests]))


main()
