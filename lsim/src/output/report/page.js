// The page: builds figures with legends and tables, and answers pointer and keyboard. Draws nothing itself.

const data = JSON.parse(document.getElementById("data").textContent);
UNITS.price = [[`${data.schedule.currency}/MWh`, 1e3]];
const whole = [Math.min(0, data.series.from), Math.max(data.series.until, data.series.from + 1000)];
let [from, until] = whole;
const panels = [];
const tip = document.getElementById("tip");

function legend(figure) {
  const entries = shown(figure, data.series).map((curve) => ({ ...curve, area: figure.stack }));
  if (figure.gantt) {
    const fates = new Set(data.gantt.jobs.map((row) => row[6]));
    const styles = [{ colour: "blue" }, { colour: "orange", hatch: 1 }, { colour: "grey", hatch: -1 }];
    const texts = ["completed (tints only set neighbours apart)", FATES[1], FATES[2]];
    styles.forEach((style, fate) => fates.has(fate) && entries.push({ ...style, area: true, label: texts[fate] }));
  }
  if (figure.periods && data.budgets.length) entries.push({ colour: "period", area: true, label: "budget period" });
  const list = element("ul", undefined, { class: "legend" });
  for (const entry of entries) {
    const item = element("li");
    item.append(swatch(entry), element("span", entry.label));
    list.append(item);
  }
  return list;
}

function note(figure) {
  if (figure.gantt) {
    const [drawn, seen] = [data.gantt.jobs.length, data.gantt.seen];
    return drawn < seen ? `the ${number(drawn)} largest (processors x time) of ${number(seen)} jobs that ran` : `${number(seen)} jobs`;
  }
  if (shown(figure, data.series).some(({ band }) => band)) {
    return `line: mean, shade: least to greatest, per ${duration(data.series.width)}`;
  }
  return `means per ${duration(data.series.width)}`;
}

function build(figure) {
  const panel = element("figure");
  const caption = element("figcaption", `${figure.title} `, { id: `${figure.id}-title` });
  caption.append(element("span", `- ${note(figure)}`, { class: "note" }));
  const canvas = element("canvas", undefined, {
    role: "img", tabindex: 0, "aria-labelledby": `${figure.id}-title`, "aria-describedby": "tip",
  });
  const details = element("details");
  details.append(element("summary", "Table of this figure"));
  details.addEventListener("toggle", () => details.open && details.childElementCount === 1 && details.append(figure.gantt ? jobTable() : curveTable(figure)));
  panel.append(caption, legend(figure), canvas, details);
  document.getElementById("figures").append(panel);
  const made = { figure, canvas, view: null };
  panels.push(made);
  listen(made);
}

function jobTable() {
  const most = 200;
  const area = (row) => row[4] * ((row[3] ?? data.series.until) - row[2]);
  const rows = data.gantt.jobs.toSorted((a, b) => area(b) - area(a)).slice(0, most).map(jobOf);
  return table(
    ["Job", "User", "Processors", "Submitted", "Started", "Ended", "Waited", "Ran", "Fate"],
    rows.map((job) => [job.number, job.user, job.processors, duration(job.submit, 3), duration(job.start, 3),
      job.end === null ? "" : duration(job.end, 3), duration(job.start - job.submit, 3),
      job.end === null ? "" : duration(job.end - job.start, 3), FATES[job.fate]]),
    `The ${number(rows.length)} largest jobs; all are in jobs.csv. Times since the workload's start.`,
  );
}

function curveTable(figure) {
  const curves = shown(figure, data.series);
  const count = data.series[curves[0].key][MEAN].length;
  const step = Math.max(1, Math.ceil(count / 60));
  const rows = [];
  for (let at = 0; at < count; at += step) {
    rows.push([duration(data.series.from + at * data.series.width), ...curves.map(({ key }) => {
      const value = data.series[key][MEAN][at];
      return value === null ? "" : quantity(figure.kind, value);
    })]);
  }
  return table(["Time", ...curves.map(({ label }) => label)], rows, `Means over ${duration(data.series.width)}; every change is in draw.csv.`);
}

function jobAt(view, x, y) {
  const [time, node] = [view.time(x), view.value(y)];
  const slack = (view.until - view.from) / (view.plot.right - view.plot.left);
  return data.gantt.jobs.findLast((row) => {
    if (time < row[2] - slack || time > (row[3] ?? data.series.until) + slack) return false;
    for (let at = 7; at < row.length; at += 2) if (node >= row[at] && node < row[at + 1] + 1) return true;
    return false;
  });
}

function tipLines({ figure, view }, x, y) {
  if (figure.gantt) {
    const row = jobAt(view, x, y);
    if (!row) return [`${duration(view.time(x))}, processor ${Math.floor(view.value(y))}`, []];
    const job = jobOf(row);
    const ran = (job.end ?? data.series.until) - job.start;
    return [`Job ${job.number}`, [["user", job.user], ["processors", number(job.processors)], ["submitted", duration(job.submit, 3)],
      ["started", duration(job.start, 3)], ["waited", duration(job.start - job.submit, 3)], ["ran", duration(ran, 3)], ["", FATES[job.fate]]]];
  }
  const at = Math.floor((view.time(x) - data.series.from) / data.series.width);
  const lines = shown(figure, data.series).map(({ key, label, band }) => {
    const [least, greatest, mean] = data.series[key].map((list) => list[at]);
    if (mean === undefined || mean === null) return [label, "-"];
    const text = quantity(figure.kind, mean);
    return [label, band && least !== greatest ? `${text} (${quantity(figure.kind, least)} to ${quantity(figure.kind, greatest)})` : text];
  });
  return [duration(view.time(x)), lines];
}

function showTip(panel, x, y) {
  const { canvas, view } = panel;
  const { plot } = view;
  if (x < plot.left || x > plot.right || y < plot.top || y > plot.bottom) return hideTip();
  const [title, lines] = tipLines(panel, x, y);
  tip.replaceChildren(element("b", title));
  for (const [label, value] of lines) {
    const line = element("div");
    line.append(element("span", label), element("span", value));
    tip.append(line);
  }
  tip.hidden = false;
  // Measured where nothing squeezes it.
  tip.style.left = "0";
  const box = canvas.getBoundingClientRect();
  const left = box.left + x + 14;
  tip.style.left = `${Math.max(4, left + tip.offsetWidth > innerWidth - 4 ? box.left + x - tip.offsetWidth - 14 : left)}px`;
  tip.style.top = `${Math.max(4, Math.min(box.top + y + 14, innerHeight - tip.offsetHeight - 4))}px`;
}

function hideTip() {
  tip.hidden = true;
}

function zoom(low, high) {
  [from, until] = [Math.max(low, whole[0]), Math.min(high, whole[1])];
  repaint();
}

function mark({ view }, start, x) {
  const { pen, plot } = view;
  pen.fillStyle = colour("period");
  pen.fillRect(Math.min(start, x), plot.top, Math.abs(x - start), plot.bottom - plot.top);
}

// Pointing shows values, dragging selects a range of time for all figures, arrow keys move along the curve.
function listen(panel) {
  const { canvas } = panel;
  let start = null;
  let cursor = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    start = place(event)[0];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (start !== null && Math.abs(x - start) > 4) {
      panel.view = paint(panel.figure, canvas, data, from, until);
      mark(panel, start, x);
    }
    showTip(panel, x, y);
  });
  canvas.addEventListener("pointerup", (event) => {
    const x = place(event)[0];
    if (start !== null && Math.abs(x - start) > 8) zoom(...[panel.view.time(start), panel.view.time(x)].toSorted((a, b) => a - b));
    start = null;
  });
  canvas.addEventListener("pointercancel", () => { start = null; repaint(); });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("blur", () => { cursor = null; hideTip(); });
  canvas.addEventListener("dblclick", () => zoom(...whole));
  canvas.addEventListener("keydown", (event) => {
    const { left, right, top, bottom } = panel.view.plot;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Escape") zoom(...whole);
    if (step === undefined) return;
    event.preventDefault();
    const [x, y] = cursor ?? [left, (top + bottom) / 2];
    cursor = [
      Math.min(right, Math.max(left, x + (step[0] * (right - left)) / 100)),
      Math.min(bottom, Math.max(top, y + (step[1] * (bottom - top)) / 50)),
    ];
    showTip(panel, ...cursor);
  });
}

function repaint() {
  for (const panel of panels) panel.view = paint(panel.figure, panel.canvas, data, from, until);
  const part = from > whole[0] || until < whole[1];
  document.getElementById("whole").hidden = !part;
  document.getElementById("shown").textContent = part
    ? `Shown: ${duration(from)} to ${duration(until)}.`
    : "Drag across a figure to look closer; double-click or Escape shows the whole run.";
}

function tiles() {
  const s = data.schedule;
  const entries = [
    ["Jobs that ran", `${number(s.jobs_started)} of ${number(s.jobs)}`],
    ["Utilisation", `${number(s.utilisation * 100)} %`],
    ["Mean bounded slowdown", number(s.avebsld, 4)],
    ["Mean wait", duration(s.mean_wait_s * 1000)],
    ["Makespan", duration(s.makespan_s * 1000)],
    ["Energy", quantity("energy", s.energy_j * 1000)],
    ...(s.cost === null ? [] : [["Cost", `${number(s.cost, 4)} ${s.currency}`]]),
    ["Time outside the limits", `${number(s.outside_limits_share * 100)} %`],
    ...data.outcomes,
  ];
  for (const [name, value] of entries) {
    const tile = element("div");
    tile.append(element("dt", name), element("dd", value));
    document.getElementById("tiles").append(tile);
  }
  document.getElementById("subtitle").textContent = `${number(s.processors)} processors (${s.platform})`
    + Object.entries(s.options).map(([key, value]) => `, ${key} = ${value}`).join("");
}

function figureTable() {
  const body = document.querySelector("#schedule tbody");
  const add = (key, value) => {
    if (value !== null && typeof value === "object") {
      for (const [inner, deep] of Object.entries(value)) add(`${key}.${inner}`, deep);
      return;
    }
    const row = element("tr");
    const name = element("th", undefined, { scope: "row" });
    // Long keys may break after their joints.
    for (const part of key.split(/(?<=[._])/)) name.append(part, element("wbr"));
    row.append(name, element("td", value === null ? "-" : String(value)));
    body.append(row);
  };
  for (const [key, value] of Object.entries(data.schedule)) add(key, value);
}

tiles();
figureTable();
for (const figure of FIGURES) if (figure.gantt || shown(figure, data.series).length) build(figure);
document.getElementById("whole").addEventListener("click", () => zoom(...whole));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
new ResizeObserver(repaint).observe(document.getElementById("figures"));
repaint();
