"""Run: the campaign of a study, and the table of its measurements."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from softband_lab.base.softband import Softband
from softband_lab.base.table_files import write_table
from softband_lab.campaign.engine_job import JobResult
from softband_lab.campaign.inputs import leave_derived
from softband_lab.campaign.runner import Outcome, run_jobs
from softband_lab.campaign.subnet_manager import SubnetManager
from softband_lab.report.results import results_table
from softband_lab.study.plan import Plan, StudyOptions


@dataclass(frozen=True)
class Measured:
    """A plan with the measurements and failures of its runs."""

    plan: Plan
    outcome: Outcome[JobResult]

    def other_hosts(self) -> dict[str, dict[str, JobResult]]:
        """Returns the results of the runs at other rates of the host, by the rate and by the run's id."""
        found = self.outcome.results
        return {
            word: {run: found[job.id] for run, job in jobs.items() if job.id in found}
            for word, jobs in self.plan.other_hosts.items()
        }


def run(plan: Plan, softband: Softband, options: StudyOptions, console: Console) -> Measured:
    """Runs the jobs that have no results yet, and writes `results.csv`. An interrupted campaign writes no table."""
    if options.manager is not SubnetManager.BUILTIN:
        leave_derived([job.fabric for job in plan.jobs], options.out)
    outcome = run_jobs(plan.all_jobs(), softband, options.out, options.cluster, console, pool=options.pool)
    if not outcome.interrupted:
        write_table(results_table(plan.study, outcome.results), options.out, "results")
    return Measured(plan, outcome)
