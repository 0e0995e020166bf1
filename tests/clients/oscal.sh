#!/usr/bin/env bash
# Validates OSCAL assessment results with compliance-trestle.
#
#   tests/clients/oscal.sh FOLDER
#
# Reads every .json of the folder, and prints `N valid`; the first that is not ends it with an error.
set -euo pipefail
folder=$(realpath "${1:?usage: oscal.sh FOLDER}")
cd "$(dirname "$0")/../.."
tests/clients/setup.sh
PYTHONDONTWRITEBYTECODE=1 target/clients/oscal/bin/python tests/clients/oscal.py "$folder"
