// The Gantt chart of jobs: those that ended in the last hours, those on nodes, and the starts that the policy plans.

import { colour, duration, element, frame, hatched, number, swatch } from "/shared.js";
import { ask, grid, link, select, time } from "/api.js";
import { hide, listen, present, show, timesOfDay } from "/chart.js";
import { go } from "/main.js";

const HOUR = 36e5;
const ROWS_LIMIT = 60;
const STYLES = {
  ended: { shade: "blue3", label: "ended" },
  failed: { shade: "orange", label: "failed, cancelled or lost" },
  running: { shade: "blue", label: "on nodes, to its time limit or estimated end" },
  planned: { shade: "green", label: "planned, to its time limit", hatch: 1 },
};

// The nodes of a short list such as `n[1-3,7],m1`.
export function expand(text) {
  const names = [];
  for (const word of text.match(/[^,[\]]+(\[[^\]]*\])?[^,[\]]*/g) ?? []) {
    const [, head, list, tail] = word.match(/^([^[]*)(?:\[([^\]]*)\])?(.*)$/);
    if (list === undefined) { names.push(word); continue; }
    for (const range of list.split(",")) {
      const [from, to = from] = range.split("-");
      for (let at = Number(from); at <= Number(to) && names.length < 1000; at++) names.push(head + String(at).padStart(from.length, "0") + tail);
    }
  }
  return names;
}

async function bars(hours) {
  const now = Date.now();
  const from = now - hours * HOUR;
  const [over, active, plan] = await Promise.all([
    ask("jobs", { over: true, from_unix_ms: Math.round(from), limit: 200 }),
    ask("jobs", { state: "starting,running,suspended,stopping", limit: 200 }),
    ask("plan", { from_unix_ms: Math.round(now), until_unix_ms: Math.round(now + hours * HOUR) }),
  ]);
  const bar = (kind, id, name, user, nodes, start, end, open) => ({ kind, id, name, user, nodes, start, end, open });
  const found = [];
  for (const job of over.jobs) {
    if (job.start_unix_ms === null) continue;
    found.push(bar(job.state === "completed" ? "ended" : "failed", job.id, job.name, job.user, job.nodes, job.start_unix_ms, job.end_unix_ms, false));
  }
  for (const job of active.jobs) {
    const start = job.start_unix_ms ?? now;
    const length = job.time_limit_s ?? job.estimate?.duration_s ?? null;
    const end = length === null ? null : start + length * 1e3;
    found.push(bar("running", job.id, job.name, job.user, job.nodes, start, Math.max(end ?? now + hours * HOUR, now), end === null));
  }
  for (const job of plan.planned) {
    const nodes = /^\d+ nodes?$/.test(job.place) ? [`any ${parseInt(job.place, 10)}`] : expand(job.place);
    const end = job.start_unix_ms + (job.time_limit_s ?? hours * 3600) * 1e3;
    found.push(bar("planned", job.id, job.name, job.user, nodes, job.start_unix_ms, end, job.time_limit_s === null));
  }
  return { found, from, until: now + hours * HOUR, cut: over.cursor !== null || active.cursor !== null || plan.planned_left_out > 0 };
}

// Starts beside each other on one node take lanes of its row.
function lay(found, names) {
  const rows = new Map(names.map((name) => [name, []]));
  for (const bar of found.toSorted((a, b) => a.start - b.start)) {
    for (const name of bar.nodes) {
      const lanes = rows.get(name);
      if (!lanes) continue;
      let at = lanes.findIndex((lane) => lane.at(-1).end <= bar.start);
      if (at < 0) { at = lanes.length; lanes.push([]); }
      lanes[at].push(bar);
    }
  }
  return rows;
}

export default async function plan(content, query, isOpen) {
  const hours = { 2: 2, 12: 12, 24: 24, 72: 72 }[query.get("hours")] ?? 12;
  let data = await bars(hours);
  const form = element("form", undefined, { class: "filters" });
  form.append(select("Hours before and after now", { 2: "2", 12: "12", 24: "24", 72: "72" }, String(hours), (count) => go(`/plan?hours=${count}`)));
  const figure = element("figure");
  const caption = element("figcaption", "Jobs on nodes ", { id: "gantt-title" });
  const remark = element("span", undefined, { class: "note" });
  caption.append(remark);
  const list = element("ul", undefined, { class: "legend" });
  for (const { shade, label, hatch } of Object.values(STYLES)) {
    const item = element("li");
    item.append(swatch({ colour: shade, area: true, hatch }), element("span", label));
    list.append(item);
  }
  const canvas = element("canvas", undefined, { id: "gantt", role: "img", tabindex: 0, "aria-labelledby": "gantt-title" });
  const table = element("div");
  figure.append(caption, list, canvas);
  content.append(form, figure, element("h2", "Table of this figure"), table);
  let view = null;
  let rows = new Map();

  function paint() {
    const names = [...new Set(data.found.flatMap((bar) => bar.nodes))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    // Planned jobs may have only a number of nodes.
    const named = names.filter((name) => !name.startsWith("any "));
    const shown = names.slice(0, ROWS_LIMIT);
    rows = lay(data.found, shown);
    remark.textContent = `- ${number(data.found.length)} jobs on ${number(named.length)} nodes`
      + (names.length > shown.length ? `; ${ROWS_LIMIT} rows are shown` : "") + (data.cut ? "; some jobs are left out" : "");
    if (canvas.clientWidth === 0) return;
    const lane = shown.length > 30 ? 14 : 22;
    view = frame(canvas, Math.max(shown.length, 1) * lane + 66, data.from, data.until, 0, Math.max(shown.length, 1));
    const { pen, plot } = view;
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    pen.strokeStyle = colour("grid");
    pen.fillStyle = colour("muted");
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const [at, text] of timesOfDay(view).ticks) {
      pen.beginPath();
      pen.moveTo(view.x(at), plot.top);
      pen.lineTo(view.x(at), plot.bottom + 5);
      pen.stroke();
      pen.fillText(text, view.x(at), plot.bottom + 8);
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    shown.forEach((name, row) => pen.fillText(name.length > 9 ? `${name.slice(0, 8)}…` : name, plot.left - 7, plot.top + (row + 0.5) * lane));
    pen.save();
    pen.beginPath();
    pen.rect(plot.left, plot.top, plot.right - plot.left, plot.bottom - plot.top);
    pen.clip();
    const fills = Object.fromEntries(Object.entries(STYLES).map(([kind, { shade, hatch }]) => [kind, hatch ? hatched(pen, colour(shade), hatch) : colour(shade)]));
    shown.forEach((name, row) => {
      const lanes = rows.get(name);
      lanes.forEach((bars, at) => {
        const height = (lane - 3) / lanes.length;
        for (const bar of bars) {
          const left = view.x(bar.start);
          pen.fillStyle = fills[bar.kind];
          pen.fillRect(left, plot.top + row * lane + 1.5 + at * height, Math.max(view.x(bar.end) - left - 1, 1.5), Math.max(height - 1, 1));
        }
      });
    });
    present(view);
    pen.restore();
  }

  function barAt(x, y) {
    const names = [...rows.keys()];
    const lane = (view.plot.bottom - view.plot.top) / Math.max(names.length, 1);
    const row = Math.floor((y - view.plot.top) / lane);
    const lanes = rows.get(names[row]);
    if (!lanes?.length) return null;
    const at = Math.min(lanes.length - 1, Math.floor(((y - view.plot.top) / lane - row) * lanes.length));
    return lanes[at].find((bar) => view.x(bar.start) - 2 <= x && x <= view.x(bar.end) + 2) ?? null;
  }

  function fill() {
    const order = data.found.toSorted((a, b) => a.start - b.start).slice(0, 200);
    table.replaceChildren(order.length ? grid([["Job", "number"], "Name", "User", "Kind", "Nodes", "From", "Until"], order.map((bar) => [
      link(`/jobs/${bar.id}`, String(bar.id)), bar.name, bar.user, STYLES[bar.kind].label.split(",")[0], bar.nodes.slice(0, 4).join(", ") + (bar.nodes.length > 4 ? ", …" : ""),
      time(bar.start), bar.open ? "unknown" : time(bar.end),
    ]), "Jobs on nodes") : element("p", "No job ran, and none is planned.", { class: "note" }));
  }

  listen(canvas, () => view.plot, (x, y) => {
    const bar = barAt(x, y);
    if (!bar) return hide();
    const lines = [["name", bar.name], ["user", bar.user], ["from", time(bar.start)], ["until", bar.open ? "unknown" : time(bar.end)]];
    if (!bar.open) lines.push(["length", duration(bar.end - bar.start)]);
    show(canvas, x, y, `Job ${bar.id}, ${STYLES[bar.kind].label}`, lines);
  });
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const bar = barAt(event.clientX - box.left, event.clientY - box.top);
    if (bar) go(`/jobs/${bar.id}`);
  });
  new ResizeObserver(paint).observe(figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  fill();
  paint();
  let age = 0;
  return () => {
    if (++age % 10 !== 0 || document.hidden) return;
    bars(hours).then((later) => { if (isOpen()) { data = later; paint(); fill(); } }).catch(() => {});
  };
}
