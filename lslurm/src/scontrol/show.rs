//! `scontrol show`: jobs, nodes, partitions, licences, the configuration and lists of hosts.

use limo_client::{Clock, Failure, Selectors, answer, exit, plain, tell};
use limo_model::UnitKind;
use limo_proto::{JobFilter, LicenceReport, NodeReport, QueueReport};

use super::{host_names, short_list};
use crate::call::{Call, FAILED, VERSION};
use crate::select::{MIN_JOB_AGE, jobs_since, remembered};
use crate::sinfo::{ClusterView, cores, gres, longest, state};
use crate::view::View;
use crate::{moment, status, values};

/// Prints what the words name.
///
/// # Errors
/// If it is unknown, or the master cannot be asked.
pub async fn run(call: &Call, words: &[&str], one_line: bool) -> Result<u8, Failure> {
    let (entity, rest) = words.split_first().map_or(("", &[][..]), |(entity, rest)| (*entity, rest));
    let (entity, value) = entity.split_once('=').map_or((entity, None), |(entity, value)| (entity, Some(value)));
    let value = value.or(rest.first().copied());
    let one_line = one_line || rest.contains(&"-o") || rest.contains(&"--oneliner");
    let value = value.filter(|value| !value.starts_with('-'));
    let shown = match entity.to_ascii_lowercase().as_str() {
        "hostnames" | "hostname" => Ok(host_names(&list_or_variable(value))?),
        "hostlist" | "hostlistsorted" => Ok(short_list(&list_or_variable(value))?),
        "config" | "configuration" => Ok(config(call)?),
        "job" | "jobs" | "jobid" => jobs(call, value).await?,
        "node" | "nodes" | "nodename" => nodes(call, value).await?,
        "partition" | "partitions" | "part" | "partitionname" => partitions(call, value).await?,
        "lic" | "license" | "licenses" | "licenseinfo" => licences(call, value).await?,
        "" => Err("too few arguments for keyword:show\n".to_owned()),
        other => Err(format!("invalid entity:{other} for keyword:show \n")),
    };
    match shown {
        Ok(text) => {
            answer(&if one_line { joined(&text) } else { text })?;
            Ok(exit::DONE)
        }
        Err(complaint) => {
            tell(&complaint);
            Ok(FAILED)
        }
    }
}

fn list_or_variable(value: Option<&str>) -> String {
    let nodes = || std::env::var("SLURM_JOB_NODELIST").or(std::env::var("LIMO_JOB_NODELIST")).unwrap_or_default();
    value.map_or_else(nodes, str::to_owned)
}

/// Puts each record on one line.
fn joined(text: &str) -> String {
    let records = text.split("\n\n").filter(|record| !record.trim().is_empty());
    records.map(|record| record.lines().map(str::trim_start).collect::<Vec<_>>().join(" ") + "\n").collect()
}

/// Text to print, or a complaint.
type Found = Result<String, String>;

async fn jobs(call: &Call, which: Option<&str>) -> Result<Found, Failure> {
    let mut session = call.master()?.session().await?;
    let clock = Clock::system();
    let found = match which {
        None => jobs_since(&mut session, &JobFilter::default(), Some(remembered(&clock))).await?,
        Some(text) => {
            let unknown = || Ok(Err("slurm_load_jobs error: Invalid job id specified\n".to_owned()));
            let Ok(selectors) = text.parse::<Selectors>() else { return unknown() };
            let Ok(numbers) = session.select(&selectors.0, false).await else { return unknown() };
            let mut found = Vec::new();
            for number in numbers {
                match session.job(number).await {
                    Ok(job) => found.push(job),
                    Err(_) => return unknown(),
                }
            }
            found
        }
    };
    if found.is_empty() {
        return Ok(Ok("No jobs in the system\n".to_owned()));
    }
    Ok(Ok(found.iter().map(|job| job_record(&View { job, clock: &clock })).collect()))
}

/// Returns a text of a user on one line, so that it cannot look like another value.
fn or_null(text: String) -> String {
    if text.is_empty() { "(null)".to_owned() } else { plain(&text) }
}

fn job_record(view: &View) -> String {
    let job = view.job;
    let array = match &job.task {
        Some((array, task)) => format!(" ArrayJobId={array} ArrayTaskId={task}"),
        None => job
            .array
            .as_ref()
            .map_or_else(String::new, |_| format!(" ArrayJobId={} ArrayTaskId={}", job.job, view.task())),
    };
    let owner = format!("UserId={}({}) GroupId={}({})", job.user, view.uid(), view.group(), view.gid());
    let eligible = view.moment(job.begin.or(Some(job.submitted)).filter(|_| job.held.is_none()), "Unknown");
    let end = view.moment(job.ended.or_else(|| Some(job.started? + job.time_limit?)), "Unknown");
    let restarts = job.evictions.by_owner + job.evictions.by_reboot;
    let limit = job.time_limit.map_or_else(|| "UNLIMITED".to_owned(), values::time_whole);
    let (cores, nodes) = (view.cores(), view.node_count());
    let memory = values::memory_shown(job.memory);
    let host = job.nodes.first().map_or_else(String::new, |node| format!("\n   BatchHost={node}"));
    let tres = match job.memory.bytes() {
        0 => format!("cpu={cores},node={nodes},billing={cores}"),
        _ => format!("cpu={cores},mem={memory},node={nodes},billing={cores}"),
    };
    let directory = plain(&view.directory());
    let reason_in_words = match (&job.wait, &job.end) {
        (Some(wait), _) => wait.shown(|time| moment::shown(time, view.clock)).to_string(),
        (None, Some(end)) => limo_client::end_in_words(end, view.clock),
        (None, None) => String::new(),
    };
    format!(
        "JobId={id}{array} JobName={name}\n   \
         {owner} MCS_label=N/A\n   \
         Priority={priority} Nice=0 Account={account} QOS={qos}\n   \
         JobState={state} Reason={reason} Dependency={dependency}\n   \
         Requeue=0 Restarts={restarts} BatchFlag=1 Reboot=0 ExitCode={code}\n   \
         RunTime={run} TimeLimit={limit} TimeMin=N/A\n   \
         SubmitTime={submit} EligibleTime={eligible}\n   \
         StartTime={start} EndTime={end} Deadline={deadline}\n   \
         Partition={partition} AllocNode:Sid=localhost:0\n   \
         ReqNodeList=(null) ExcNodeList=(null)\n   \
         NodeList={list}{host}\n   \
         NumNodes={nodes} NumCPUs={cores} NumTasks={cores} CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n   \
         TRES={tres}\n   \
         MinCPUsNode=1 MinMemoryNode={memory} MinTmpDiskNode=0\n   \
         OverSubscribe=OK Contiguous=0 Licenses={licences} Network=(null)\n   \
         Command={command}\n   \
         WorkDir={directory}\n   \
         AdminComment={words}\n   {comment}\
         StdErr={stderr}\n   \
         StdIn=/dev/null\n   \
         StdOut={stdout}\n   \
         Power=\n   \n\n",
        id = job.job,
        name = plain(&job.name),
        priority = view.priority(),
        state = status::of_job(job).name,
        reason = status::reason(job),
        dependency = or_null(view.dependencies()),
        code = status::exit_code(job),
        run = values::time_whole(view.run()),
        submit = view.moment(Some(job.submitted), "Unknown"),
        start = view.moment(job.started.or(job.begin), "Unknown"),
        deadline = view.moment(job.deadline, "N/A"),
        partition = view.partition(),
        list = view.nodes(),
        licences = or_null(view.licences()),
        account = or_null(view.account()),
        qos = view.qos(),
        command = or_null(job.command.clone()),
        words = or_null(reason_in_words),
        comment =
            if view.comment().is_empty() { String::new() } else { format!("Comment={}\n   ", plain(&view.comment())) },
        stderr = or_null(job.stderr.clone().unwrap_or_default()),
        stdout = or_null(job.stdout.clone().unwrap_or_default()),
    )
}

async fn nodes(call: &Call, which: Option<&str>) -> Result<Found, Failure> {
    let cluster = ClusterView::ask(&call.master()?).await?;
    let wanted = which.map(limo_model::parse_hosts).transpose();
    let wanted = wanted.map_err(|error| Failure::new(format_args!("Invalid node name: {error}")))?;
    if let Some(missing) = wanted.iter().flatten().find(|name| cluster.nodes.iter().all(|node| node.name != **name)) {
        answer(&format!("Node {missing} not found\n"))?;
        return Ok(Err(String::new()));
    }
    let shown = cluster.nodes.iter().filter(|node| wanted.as_ref().is_none_or(|names| names.contains(&node.name)));
    Ok(Ok(shown.map(|node| node_record(node, &cluster)).collect()))
}

fn node_record(node: &NodeReport, cluster: &ClusterView) -> String {
    let (used, all) = cores(node);
    let has_it = |queue: &&QueueReport| cluster.of(queue).iter().any(|other| other.name == node.name);
    let partitions: Vec<&str> = cluster.queues.iter().filter(has_it).map(|queue| queue.name.as_str()).collect();
    let (memory, taken) = (node.memory.bytes() >> 20, node.memory_used.bytes() >> 20);
    let features: Vec<&str> = node.units.iter().map(|unit| unit.hardware.as_str()).collect();
    let caps = node.units.iter().filter(|unit| unit.kind == UnitKind::Cpu).find_map(|unit| unit.cap);
    let reason = node.reason.as_ref().map_or_else(String::new, |reason| format!("   Reason={}\n", plain(reason)));
    format!(
        "NodeName={name} Arch=x86_64 CoresPerSocket={all} \n   \
         CPUAlloc={used} CPUEfctv={all} CPUTot={all} CPULoad={used}.00\n   \
         AvailableFeatures={features}\n   \
         ActiveFeatures={features}\n   \
         Gres={gres}\n   \
         NodeAddr={name} NodeHostName={name} Version={VERSION}\n   \
         RealMemory={memory} AllocMem={taken} FreeMem={free} Sockets=1 Boards=1\n   \
         State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n   \
         Partitions={partitions} \n   \
         CfgTRES=cpu={all},mem={memory}M,billing={all}\n   \
         AllocTRES=cpu={used},mem={taken}M\n   \
         CapWatts={caps}\n   \
         CurrentWatts={watts:.0} AveWatts={watts:.0}\n{reason}\n",
        name = node.name,
        features = or_null(features.join(",")),
        gres = gres(node),
        free = memory.saturating_sub(taken),
        state = state(node).0.to_ascii_uppercase(),
        partitions = partitions.join(","),
        caps = caps.map_or_else(|| "n/a".to_owned(), |cap| format!("{:.0}", cap.watts())),
        watts = node.draw.watts(),
    )
}

async fn licences(call: &Call, which: Option<&str>) -> Result<Found, Failure> {
    let status = call.master()?.status().await?;
    let shown: Vec<_> = status.licences.iter().filter(|own| which.is_none_or(|name| own.name == name)).collect();
    if let Some(name) = which.filter(|_| shown.is_empty()) {
        answer(&format!("License {name} not found\n"))?;
        return Ok(Err(String::new()));
    }
    if shown.is_empty() {
        return Ok(Ok("No licenses configured in Slurm.\n".to_owned()));
    }
    let record = |own: &LicenceReport| {
        let free = own.total.saturating_sub(own.held);
        format!(
            "LicenseName={}\n    Total={} Used={} Free={free} Reserved=0 Remote=no\n",
            own.name, own.total, own.held
        )
    };
    Ok(Ok(shown.into_iter().map(record).collect()))
}

async fn partitions(call: &Call, which: Option<&str>) -> Result<Found, Failure> {
    let cluster = ClusterView::ask(&call.master()?).await?;
    let shown: Vec<&QueueReport> =
        cluster.queues.iter().filter(|queue| which.is_none_or(|name| queue.name == name)).collect();
    if let Some(name) = which.filter(|_| shown.is_empty()) {
        answer(&format!("Partition {name} not found\n"))?;
        return Ok(Err(String::new()));
    }
    Ok(Ok(shown.into_iter().map(|queue| partition_record(queue, &cluster)).collect()))
}

fn partition_record(queue: &QueueReport, cluster: &ClusterView) -> String {
    let nodes = cluster.of(queue);
    let cpus: u32 = nodes.iter().map(|node| cores(node).1).sum();
    let memory: u64 = nodes.iter().map(|node| node.memory.bytes() >> 20).sum();
    format!(
        "PartitionName={name}\n   \
         AllowGroups={groups} AllowAccounts=ALL AllowQos=ALL\n   \
         AllocNodes=ALL Default={default} QoS=N/A\n   \
         DefaultTime={usual} DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO\n   \
         MaxNodes={most} MaxTime={longest} MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED\n   \
         Nodes={list}\n   \
         PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO\n   \
         OverTimeLimit=NONE PreemptMode=OFF\n   \
         State={state} TotalCPUs={cpus} TotalNodes={count} SelectTypeParameters=NONE\n   \
         JobDefaults=(null)\n   \
         DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED\n   \
         TRES=cpu={cpus},mem={memory}M,node={count},billing={cpus}\n\n",
        name = queue.name,
        groups = if queue.groups.is_empty() { "ALL" } else { &queue.groups },
        default = if queue.is_default { "YES" } else { "NO" },
        usual = longest(queue.default_time, "NONE"),
        most = queue.max_nodes.map_or_else(|| "UNLIMITED".to_owned(), |most| most.to_string()),
        longest = longest(queue.max_time, "UNLIMITED"),
        list = limo_model::host_list(nodes.iter().map(|node| node.name.as_str())),
        state = if queue.is_down { "DOWN" } else { "UP" },
        count = nodes.len(),
    )
}

/// Returns the settings that clients read, as far as Limo has them.
fn config(call: &Call) -> Result<String, Failure> {
    let clock = Clock::system();
    let mut text = format!("Configuration data as of {}\n", moment::shown(clock.now(), &clock));
    let age = format!("{} sec", MIN_JOB_AGE.ms() / 1000);
    let size = limo_model::TASKS_LIMIT.to_string();
    let address = call.master()?.address();
    let settings: [(&str, &str); 10] = [
        ("AccountingStorageType", "accounting_storage/limo"),
        ("ClusterName", "limo"),
        ("JobRequeue", "0"),
        ("MaxArraySize", &size),
        ("MaxTasksPerNode", "512"),
        ("MinJobAge", &age),
        ("SchedulerType", "sched/limo"),
        ("SelectType", "select/cons_tres"),
        ("SlurmctldHost[0]", &address),
        ("SLURM_VERSION", VERSION),
    ];
    for (key, value) in settings {
        text += &format!("{key:<23} = {value}\n");
    }
    Ok(text + &format!("\nSlurmctld(primary) at {address} is UP\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_fake::running_job;

    #[test]
    fn a_record_has_a_line_for_each_group_of_values_or_only_one() {
        let mut job = running_job(7);
        job.command = "echo '\n   JobState=FAILED'".into();
        let clock = Clock::utc(job.submitted);
        let record = job_record(&View { job: &job, clock: &clock });
        assert!(record.starts_with("JobId=7 JobName=") && record.ends_with("   Power=\n   \n\n"), "{record}");
        assert!(record.contains("\n   JobState=RUNNING Reason=None Dependency=(null)\n"), "{record}");
        assert_eq!(record.matches("\n   JobState=").count(), 1, "a command is on one line: {record}");
        let line = joined(&record);
        assert!(line.starts_with("JobId=7 JobName=") && line.ends_with(" Power= \n"), "{line}");
        assert_eq!(line.lines().count(), 1);
    }
}
