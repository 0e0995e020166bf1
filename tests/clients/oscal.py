"""Reads OSCAL assessment results as compliance-trestle does: unknown, missing and malformed members are errors."""

import json
import pathlib
import sys

from trestle.oscal import OSCAL_VERSION
from trestle.oscal.assessment_results import AssessmentResults

valid = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    results = AssessmentResults.oscal_read(path)
    written = json.loads(path.read_text())["assessment-results"]
    assert written["metadata"]["oscal-version"] == OSCAL_VERSION, (path, OSCAL_VERSION)
    result = results.results[0]
    observed = {observation.uuid for observation in result.observations or []}
    ids = [observation.uuid for observation in result.observations or []]
    assert len(ids) == len(observed), f"{path}: an observation's uuid is used twice"
    for finding in result.findings or []:
        for related in finding.related_observations:
            assert related.observation_uuid in observed, f"{path}: {finding.title}"
    valid += 1
print(f"{valid} valid")
