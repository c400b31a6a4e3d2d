// The figures: which curves each shows, and how curves, stacks and the Gantt chart are drawn. Knows no pointer.

const FIGURES = [
  { id: "gantt", title: "Jobs on processors", kind: "processors", axis: "Processor (number)", height: 400, gantt: true },
  {
    id: "draw", title: "Draw against the limits", kind: "power", axis: "Power", height: 260, periods: true,
    curves: [
      { key: "draw", label: "draw", colour: "blue", band: true },
      { key: "believed", label: "draw as the scheduler believes it", colour: "amber", dash: [2, 3] },
      { key: "limit", label: "upper limit", colour: "red", dash: [8, 4] },
      { key: "lower", label: "lower limit", colour: "violet", dash: [8, 3, 2, 3] },
    ],
  },
  {
    id: "budget", title: "Energy budget", kind: "energy", axis: "Energy", height: 240, periods: true,
    curves: [
      { key: "spent", label: "spent", colour: "blue" },
      { key: "released", label: "released", colour: "green", dash: [8, 4] },
      { key: "reserved", label: "reserved for the first waiting job", colour: "orange", dash: [2, 3] },
    ],
  },
  {
    id: "queue", title: "Queue length and running jobs", kind: "jobs", axis: "Jobs (number)", height: 220,
    curves: [
      { key: "queued", label: "waiting", colour: "orange", band: true },
      { key: "running", label: "running", colour: "blue", band: true, dash: [8, 4] },
    ],
  },
  {
    id: "states", title: "Processors by state", kind: "processors", axis: "Processors (number)", height: 220, stack: true,
    curves: [
      { key: "computing", label: "computing", colour: "blue" },
      { key: "idle", label: "idle", colour: "blue3" },
      { key: "switching_on", label: "switching on", colour: "amber", hatch: 1 },
      { key: "switching_off", label: "switching off", colour: "violet" },
      { key: "off", label: "off", colour: "grey", hatch: -1 },
    ],
  },
  {
    id: "price", title: "Price of energy", kind: "price", axis: "Price", height: 200,
    curves: [{ key: "price", label: "price", colour: "green", band: true }],
  },
];

const LEAST = 0, GREATEST = 1, MEAN = 2;
const FATES = ["completed", "killed at its walltime", "still running at the end"];

function shown(figure, series) {
  return (figure.curves ?? []).filter(({ key }) => series[key] && !(figure.stack && series[key][GREATEST].every((v) => !v)));
}

// The buckets that touch [from, until].
function buckets(series, from, until) {
  const count = series.draw?.[MEAN].length ?? 0;
  const first = Math.max(0, Math.floor((from - series.from) / series.width));
  const last = Math.min(count - 1, Math.floor((until - series.from) / series.width));
  return [first, last];
}

function bounds(figure, data, from, until) {
  if (figure.gantt || figure.stack) return [0, data.schedule.processors];
  const [first, last] = buckets(data.series, from, until);
  let [low, high] = [0, 0];
  for (const { key } of shown(figure, data.series)) {
    for (let at = first; at <= last; at++) {
      low = Math.min(low, data.series[key][LEAST][at] ?? 0);
      high = Math.max(high, data.series[key][GREATEST][at] ?? 0);
    }
  }
  const room = (high - low || 1) * 0.06;
  return [low < 0 ? low - room : 0, high + room];
}

function drawPeriods(view, periods) {
  view.pen.fillStyle = colour("period");
  for (const [from, until] of periods) {
    view.pen.fillRect(view.x(from), view.plot.top, view.x(until) - view.x(from), view.plot.bottom - view.plot.top);
  }
}

function drawCurve(view, series, curve) {
  const { pen } = view;
  const [first, last] = buckets(series, view.from, view.until);
  const [least, greatest, mean] = series[curve.key];
  const edge = (at) => view.x(Math.min(series.from + at * series.width, series.until));
  pen.strokeStyle = pen.fillStyle = colour(curve.colour);
  if (curve.band) {
    pen.globalAlpha = 0.28;
    for (let at = first; at <= last; at++) {
      if (mean[at] === null || least[at] === greatest[at]) continue;
      const top = view.y(greatest[at]);
      pen.fillRect(edge(at), top, Math.max(edge(at + 1) - edge(at), 1), view.y(least[at]) - top);
    }
    pen.globalAlpha = 1;
  }
  pen.lineWidth = 1.6;
  pen.setLineDash(curve.dash ?? []);
  pen.beginPath();
  let open = false;
  for (let at = first; at <= last; at++) {
    if (mean[at] === null) { open = false; continue; }
    if (open) pen.lineTo(edge(at), view.y(mean[at])); else pen.moveTo(edge(at), view.y(mean[at]));
    pen.lineTo(edge(at + 1), view.y(mean[at]));
    open = true;
  }
  pen.stroke();
  pen.setLineDash([]);
}

function drawStack(view, series, curves) {
  const { pen } = view;
  const [first, last] = buckets(series, view.from, view.until);
  const edge = (at) => view.x(Math.min(series.from + at * series.width, series.until));
  const base = new Array(last + 1).fill(0);
  for (const curve of curves) {
    const fill = colour(curve.colour);
    pen.fillStyle = curve.hatch ? hatched(pen, fill, curve.hatch) : fill;
    pen.beginPath();
    for (let at = first; at <= last; at++) pen.lineTo(edge(at), view.y(base[at])), pen.lineTo(edge(at + 1), view.y(base[at]));
    for (let at = last; at >= first; at--) {
      base[at] += series[curve.key][MEAN][at] ?? 0;
      pen.lineTo(edge(at + 1), view.y(base[at]));
      pen.lineTo(edge(at), view.y(base[at]));
    }
    pen.fill();
  }
}

// A job of the data as an object; `end` is null for one that ran on.
function jobOf(row) {
  const [number, submit, start, end, processors, user, fate] = row;
  return { number, submit, start, end, processors, user, fate, nodes: row };
}

function drawJobs(view, data) {
  const { pen } = view;
  const tints = ["blue", "blue2", "blue3"].map(colour);
  const killed = hatched(pen, colour("orange"), 1);
  const running = hatched(pen, colour("grey"), -1);
  for (const row of data.gantt.jobs) {
    const { number, start, end, fate, nodes } = jobOf(row);
    const until = end ?? data.series.until;
    if (until < view.from || start > view.until) continue;
    pen.fillStyle = fate === 1 ? killed : fate === 2 ? running : tints[((number % 3) + 3) % 3];
    const left = view.x(start);
    const width = Math.max(view.x(until) - left, 0.7);
    for (let at = 7; at < nodes.length; at += 2) {
      const top = view.y(nodes[at + 1] + 1);
      const height = Math.max(view.y(nodes[at]) - top, 0.7);
      // A line of background between neighbours where there is place for one.
      pen.fillRect(left, top, width > 4 ? width - 0.8 : width, height > 4 ? height - 0.8 : height);
    }
  }
}

function paint(figure, canvas, data, from, until) {
  const [low, high] = bounds(figure, data, from, until);
  const height = canvas.clientWidth < 560 ? Math.round(figure.height * 0.85) : figure.height;
  const view = frame(canvas, height, from, until, low, high);
  const [unit, size] = unitFor(figure.kind, Math.max(Math.abs(low), high));
  const { pen, plot } = view;
  const name = figure.axis.endsWith(")") ? figure.axis : `${figure.axis} (${unit})`;
  if (figure.periods) clipped(view, () => drawPeriods(view, data.budgets));
  axes(view, name, size);
  clipped(view, () => {
    if (figure.gantt) drawJobs(view, data);
    else if (figure.stack) drawStack(view, data.series, shown(figure, data.series));
    else for (const curve of shown(figure, data.series).toReversed()) drawCurve(view, data.series, curve);
  });
  return view;

  function clipped(view, inside) {
    pen.save();
    pen.beginPath();
    pen.rect(plot.left, plot.top, plot.right - plot.left, plot.bottom - plot.top);
    pen.clip();
    inside();
    pen.restore();
  }
}
