//! The speed of Slurm's commands by `lslurm`, beside Limo's own commands. The cluster has no nodes, so all jobs wait.

use anyhow::Result;

use super::figure::{Aim, Part, median};
use super::site::{Site, place, took_ms};

/// Jobs that `squeue` lists.
const LISTED: usize = 1000;

/// Alternates `sbatch` with `lrun --detach`, and then `squeue` with `lq`. These two list the same jobs.
pub async fn compat(site: &Site) -> Result<Part> {
    let place = place()?;
    let cluster = site.cluster(place.path(), "", &[]).await?;
    let what = format!("Slurm's commands by lslurm; medians, in turns; squeue and lq list {LISTED} jobs");
    let mut part = Part::new("compat", what, &[]);
    let (mut lrun, mut sbatch, mut other_sbatch) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..LISTED / 2 {
        lrun.push(took_ms(cluster.client("lrun").args(["--detach", "-Q", "true"]))?);
        sbatch.push(took_ms(cluster.client("lslurm").args(["sbatch", "-Q", "--wrap", "true"]))?);
        if let Some(slurm) = &site.slurm {
            other_sbatch.push(took_ms(slurm.command("sbatch").args(["-Q", "-H", "--wrap", "true"]))?);
        }
    }
    let (mut lq, mut squeue, mut other_squeue) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..site.so_many(200) {
        lq.push(took_ms(&mut cluster.client("lq"))?);
        squeue.push(took_ms(cluster.client("lslurm").arg("squeue"))?);
        if let Some(slurm) = &site.slurm {
            other_squeue.push(took_ms(&mut slurm.command("squeue"))?);
        }
    }
    part.row("lrun_ms", "lrun --detach -Q true", median(&lrun));
    part.row("sbatch_ms", "sbatch -Q --wrap true", median(&sbatch));
    part.aim("above_lrun_ms", "above lrun", (median(&sbatch) - median(&lrun), Aim::AtMost(2.0)));
    if let Some(slurm) = &site.slurm {
        part.row("other_sbatch_ms", format!("sbatch -Q -H --wrap true ({})", slurm.version), median(&other_sbatch));
    }
    part.row("lq_ms", "lq", median(&lq));
    part.aim("squeue_ms", "squeue", (median(&squeue), Aim::AtMost(15.0)));
    if let Some(slurm) = &site.slurm {
        let label = format!("squeue ({}, half as many jobs)", slurm.version);
        part.row("other_squeue_ms", label, median(&other_squeue));
    }
    Ok(part)
}
