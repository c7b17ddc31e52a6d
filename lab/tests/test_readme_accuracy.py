"""README.md counts the compared numbers as the studies do: predicted, resting on a calibration, and inputs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from softband_lab.rules.claims import bases_of, calibrated_parameters, load_rules
from softband_lab.rules.judgement import Rule
from softband_lab.spec.published import load_published
from softband_lab.spec.study_file import load_study

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OWN_STUDY = "generations"
STUDIES = ("cables", "pcie", "xt3", OWN_STUDY, "accuracy")
# Rules that compare numbers, so a deviation exists. The others compare orders and facts.
NUMERIC = {"value", "ratio", "difference", "improvement", "lane-share", "field", "part-value", "longest-accepted"}


def counted() -> Counter[tuple[bool, str]]:
    """Numbers by whether the project's own study has them, and by basis."""
    calibrated = calibrated_parameters(ROOT / "catalog")
    rules: dict[str, dict[str, Rule]] = {}
    for name in STUDIES:
        study = load_study(ROOT, name)
        reference = study.claims_path(ROOT)
        rules[name] = dict(load_rules(study, load_published(reference), reference))
    every = {claim: rule for own in rules.values() for claim, rule in own.items()}
    found: Counter[tuple[bool, str]] = Counter()
    for name, own in rules.items():
        bases = bases_of(own, calibrated, every)
        found.update((name == OWN_STUDY, bases[claim]) for claim, rule in own.items() if rule.kind in NUMERIC)
    return found


def claimed(pattern: str) -> int:
    match = re.search(pattern, README)
    assert match is not None, f"README has no text like: {pattern}"
    return int(match[1])


def test_the_counts_of_predicted_numbers_are_those_of_the_studies() -> None:
    found = counted()
    assert claimed(r"papers on HCAs [^|]*\| (\d+) predicted") == found[(False, "predicted")]
    assert claimed(r"own study of [^|]*\| (\d+) predicted") == found[(True, "predicted")]


def test_the_counts_of_calibrated_numbers_and_inputs_are_those_of_the_studies() -> None:
    found = counted()
    flat = " ".join(README.split())
    match = re.search(r"Another (\d+) numbers rest on a calibration, and (\d+) are inputs", flat)
    assert match is not None
    assert int(match[1]) == found[(False, "calibrated")] + found[(True, "calibrated")]
    assert int(match[2]) == found[(False, "input")] + found[(True, "input")]
