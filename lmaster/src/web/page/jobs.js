// The list of jobs, a page at a time, with its filters in the address; and one job.

import { duration, element, number, quantity } from "/shared.js";
import { ask, button, command, facts, grid, how, howOf, joules, link, mayAct, money, state, time, watts } from "/api.js";
import { chart } from "/chart.js";
import { go } from "/main.js";
import { selection } from "/selection.js";

const ROWS = 50;
const LIVE = ["waiting", "starting", "running", "suspended", "stopping"];
const OVER = ["completed", "failed", "cancelled", "timed_out", "lost", "refused", "used_up", "node_failed"];
const HIDDEN = "(hidden)";
const SORTS = { number: "number", start: "start", time_limit: "time limit", cores: "cores" };

const span = (seconds) => (seconds === null ? "-" : duration(seconds * 1e3));

function cores(job) {
  const each = job.cores === null ? "all" : number(job.cores);
  return job.nodes.length > 1 ? `${number(job.nodes.length)} x ${each}` : each;
}

function ran(job) {
  if (job.start_unix_ms === null) return "-";
  return duration(Math.max((job.end_unix_ms ?? Date.now()) - job.start_unix_ms, 0));
}

function energyOf(job) {
  if (job.energy_j === null) return "-";
  const cell = element("span", `${joules(job.energy_j)} `);
  cell.append(how(howOf(job)));
  return cell;
}

function places(job) {
  const shown = job.nodes.slice(0, 3).join(", ");
  return job.nodes.length > 3 ? `${shown} and ${number(job.nodes.length - 3)} more` : shown || "-";
}

function filters(query, over) {
  const form = element("form", undefined, { class: "filters", role: "search" });
  const field = (name, label, input) => {
    const box = element("label", label);
    input.name = name;
    box.append(input);
    form.append(box);
  };
  const choice = (entries, chosen) => {
    const box = element("select");
    for (const [value, text] of entries) {
      const entry = element("option", text, { value });
      entry.selected = value === chosen;
      box.append(entry);
    }
    return box;
  };
  field("over", "Jobs", choice([["", "unfinished"], ["true", "finished"]], over ? "true" : ""));
  const states = over ? OVER : LIVE;
  field("state", "State", choice([["", "any"], ...states.map((word) => [word, word.replaceAll("_", " ")])], query.get("state") ?? ""));
  for (const name of ["user", "name", "node", "queue"]) {
    const input = element("input", undefined, { value: query.get(name) ?? "", autocomplete: "off" });
    field(name, name[0].toUpperCase() + name.slice(1), input);
  }
  if (!over) {
    field("sort", "Sort by", choice(Object.entries(SORTS), query.get("sort") ?? "number"));
    field("order", "Order", choice([["asc", "ascending"], ["desc", "descending"]], query.get("order") ?? "asc"));
  }
  form.append(element("button", "Show"));
  const submit = () => {
    const wanted = new URLSearchParams();
    for (const [key, value] of new FormData(form)) if (value && !(key === "sort" && value === "number") && !(key === "order" && value === "asc")) wanted.set(key, value);
    // States belong to one of both lists.
    if (Boolean(wanted.get("over")) !== over) ["state", "sort", "order"].forEach((key) => wanted.delete(key));
    go(`/jobs${wanted.size ? `?${wanted}` : ""}`);
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); submit(); });
  form.addEventListener("change", (event) => event.target.tagName === "SELECT" && submit());
  return form;
}

function tableOf(list, over, selected) {
  const columns = [["Job", "number"], "Name", "User", "State", ["Cores", "number"], "Nodes", ["Time", "number"], ["Energy", "number"]];
  columns.push(...(over ? ["Ended", ["Cost", "number"], ["End", "wide"]] : ["Submitted", ["Reason", "wide"]]));
  const rows = list.map((job) => [
    link(`/jobs/${job.id}`, String(job.id)), job.name, job.user, state(job.state), cores(job), places(job), ran(job), energyOf(job),
    ...(over ? [time(job.end_unix_ms), money(job.cost, job.currency), job.end_reason] : [time(job.submit_unix_ms), job.wait_reason ?? ""]),
  ]);
  if (selected) {
    const [all, boxes] = selected.boxesOf(list.map((job) => job.id));
    columns.unshift([all]);
    rows.forEach((row, at) => row.unshift(boxes[at]));
  }
  return grid(columns, rows, over ? "Finished jobs" : "Unfinished jobs");
}

export async function jobs(content, query, isOpen) {
  const over = query.get("over") === "true";
  const form = filters(query, over);
  const place = element("div");
  const [back, more] = [element("button", "First page", { type: "button" }), element("button", "Next page", { type: "button" })];
  const pages = element("p", undefined, { class: "pages" });
  const asked = Object.fromEntries(query);
  let age = 0;
  const selected = !over && (await mayAct()) ? selection(() => load()) : null;
  const load = async () => {
    const page = await ask("jobs", { ...asked, limit: ROWS });
    if (!isOpen()) return;
    if (page.jobs.length === 0) selected?.boxesOf([]);
    place.replaceChildren(page.jobs.length ? tableOf(page.jobs, over, selected) : element("p", "No job fits.", { class: "note" }));
    more.disabled = page.cursor === null;
    more.onclick = () => go(`/jobs?${new URLSearchParams({ ...asked, cursor: page.cursor })}`);
    back.disabled = !asked.cursor;
    const first = new URLSearchParams(asked);
    first.delete("cursor");
    back.onclick = () => go(`/jobs${first.size ? `?${first}` : ""}`);
  };
  pages.append(back, more, element("span", `${ROWS} jobs a page`));
  content.append(form, ...(selected ? [selected.bar, selected.said] : []), place, pages);
  await load();
  // The list follows the queue, but not under a hand that points at it.
  return () => { if (++age % 5 === 0 && !over && !document.hidden && !place.matches(":hover, :focus-within")) load().catch(() => {}); };
}

function reasonOf(job) {
  return job.wait_reason ?? job.end_reason ?? "";
}

// The master neither keeps the output of jobs nor reads their files: only the user's own client may, with the user's rights.
function outputOf(job) {
  const heading = element("h2", "Output");
  const note = (text) => [heading, element("p", text, { class: "note" })];
  if (job.command === HIDDEN) return note("Hidden: the job belongs to another user.");
  if (job.stdout_path === null && job.stderr_path === null) {
    if (job.start_unix_ms !== null && job.end_unix_ms !== null) return note("The job had no file: its output went to its lrun.");
    if (job.start_unix_ms !== null) return [...note("The job has no file: its output goes to its lrun. If that is gone, this takes the job over:"), command(`lq attach ${job.id}`)];
    return job.end_unix_ms === null ? [...note("The job has not started. This waits for its output:"), command(`lq logs -f ${job.id}`)] : note("The job never ran.");
  }
  const follow = job.end_unix_ms === null ? " -f" : "";
  const parts = [heading, facts([
    ["Output", job.stdout_path], ["Errors", job.stderr_path === job.stdout_path ? "in the same file" : job.stderr_path], ["Written on", job.nodes[0] ?? null],
  ]), element("p", "The files belong to the user, so they are read in a terminal, where their directory is mounted:", { class: "note" })];
  if (job.stdout_path !== null) parts.push(command(`lq logs${follow} ${job.id}`));
  if (job.stderr_path !== null && job.stderr_path !== job.stdout_path) parts.push(command(`lq logs${follow} --stderr ${job.id}`));
  return parts;
}

async function drawOf(job) {
  if (job.start_unix_ms === null || job.nodes.length === 0) return null;
  const until = job.end_unix_ms ?? Date.now();
  const margin = Math.max((until - job.start_unix_ms) * 0.1, 3e5);
  const [from, to] = [Math.round(job.start_unix_ms - margin), Math.round(Math.min(until + margin, Date.now() + 1))];
  const drawn = await ask("draw", { node: job.nodes[0], from_unix_ms: from, until_unix_ms: to }).catch(() => null);
  if (!drawn || drawn.draw.length === 0) return null;
  const spread = drawn.draw.map(({ at_unix_ms, low_w, mean_w, high_w }) => [at_unix_ms, low_w * 1e3, mean_w * 1e3, high_w * 1e3]);
  return chart("job-draw", {
    title: `Draw of ${job.nodes[0]}`, note: `- the whole node; ${drawn.emulated ? "emulated" : "measured"}`, kind: "power", axis: "Power", height: 220,
    text: (value) => quantity("power", value), from, until: to, curves: [{ label: "draw", shade: "blue", spread, width: drawn.bucket_s * 1e3 }],
  }).panel;
}

export async function job(content, id) {
  const [{ job, explanation }, may] = await Promise.all([ask(`jobs/${id}`), mayAct()]);
  const estimate = job.estimate;
  if (may && job.end_unix_ms === null) {
    const actions = element("p", undefined, { class: "pages" });
    const again = () => go(`/jobs/${id}`, true);
    actions.append(button("Cancel", `Cancel job ${id}, ${job.name}?`, `jobs/${id}/cancel`, again));
    if (job.held_by !== null) actions.append(button("Release", `Release job ${id}, ${job.name}?`, `jobs/${id}/release`, again));
    else if (job.state === "waiting") actions.append(button("Hold", `Hold job ${id}, ${job.name}?`, `jobs/${id}/hold`, again));
    content.append(actions);
  }
  content.append(facts([
    ["State", state(job.state)], [job.end_unix_ms === null ? "Reason" : "End", reasonOf(job) || null],
    ["Name", job.name], ["User", job.user], ["Queue", job.queue], ["Application", job.application], ["Command", element("code", job.command)],
    ["Cores", cores(job)], ["Nodes", job.nodes.join(", ") || null],
    ["Submitted", time(job.submit_unix_ms)], ["Started", time(job.start_unix_ms)], ["Ended", time(job.end_unix_ms)], ["Ran", ran(job)],
    ["Time limit", span(job.time_limit_s)],
    ["Planned start", explanation?.planned_start_unix_ms ? `${time(explanation.planned_start_unix_ms)} on ${explanation.planned_on}` : null],
    ["Energy above idle", job.energy_j === null ? null : energyOf(job)],
    ["Estimate", estimate && `${joules(estimate.energy_j)}, ${watts(estimate.power_w)} for ${span(estimate.duration_s)} (${estimate.source})`, estimate ? how("estimated") : ""],
    ["Cost", money(job.cost, job.currency), job.start_now_cost === null ? "" : `(${money(job.start_now_cost, job.currency)} if started at once)`],
    ["Exit code", job.exit_code === null ? null : String(job.exit_code)],
    ["Held by", job.held_by], ["Depends on", job.dependencies.join(", ") || null],
  ]));
  content.append(...outputOf(job));
  const panel = await drawOf(job);
  if (panel) content.append(panel);
  if (!explanation) return;
  content.append(element("h2", "Where it could run"));
  const rows = explanation.candidates.slice(0, 100).map((candidate) => [
    `${candidate.node}/${candidate.unit}`, candidate.hardware, watts(candidate.cap_w), span(candidate.estimate.duration_s),
    joules(candidate.estimate.energy_j), money(candidate.cost, explanation.currency), candidate.estimate_from, candidate.obstacle ?? "none",
  ]);
  const columns = ["Unit", "Hardware", ["Cap", "number"], ["Duration", "number"], ["Energy (estimated)", "number"], ["Cost", "number"], "Estimate from", ["Obstacle", "wide"]];
  content.append(rows.length ? grid(columns, rows, "Candidates") : element("p", "No unit of a registered node could run it.", { class: "note" }));
}
