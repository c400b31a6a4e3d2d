// Figures over the time of the day: steps, curves with their spread, and the line of the present. A figure has a
// legend, a table behind it, and shows values under the pointer or the arrow keys.

import { axes, colour, element, frame, swatch, unitFor } from "/shared.js";
import { grid, time } from "/api.js";

const tip = () => document.getElementById("tip");

// Round times of the day.
function timesOfDay(view) {
  const minute = 6e4;
  const steps = [1, 5, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080].map((count) => count * minute);
  const room = Math.max((view.plot.right - view.plot.left) / 70, 1);
  const step = steps.find((step) => (view.until - view.from) / step <= room) ?? steps.at(-1);
  const first = new Date(view.from);
  first.setHours(0, 0, 0, 0);
  const ticks = [];
  // Whole days may have 23 or 25 hours.
  for (let at = first.getTime(), day = 0; at <= view.until; ) {
    if (at >= view.from) {
      const when = new Date(at);
      const text = when.getHours() + when.getMinutes() === 0
        ? when.toLocaleDateString("en", { day: "numeric", month: "short" })
        : `${String(when.getHours()).padStart(2, "0")}:${String(when.getMinutes()).padStart(2, "0")}`;
      ticks.push([at, text]);
    }
    if (step >= 1440 * minute) {
      day += step / (1440 * minute);
      at = new Date(first.getFullYear(), first.getMonth(), first.getDate() + day).getTime();
    } else {
      at += step;
    }
  }
  return { name: "", ticks };
}

// The value of steps [[time, value]] at a time; each holds until the next.
function valueAt(steps, at) {
  const found = steps.findLast(([begin]) => begin <= at);
  return found ? found[1] : null;
}

function drawSteps(view, { steps, shade, dash }) {
  const { pen } = view;
  pen.strokeStyle = colour(shade);
  pen.lineWidth = 1.8;
  pen.setLineDash(dash ?? []);
  pen.beginPath();
  steps.forEach(([at, value], index) => {
    const until = Math.min(steps[index + 1]?.[0] ?? view.until, view.until);
    if (value === null || until <= view.from) return;
    const [left, y] = [view.x(Math.max(at, view.from)), view.y(value)];
    if (index > 0 && steps[index - 1][1] !== null && at > view.from) pen.lineTo(left, y); else pen.moveTo(left, y);
    pen.lineTo(view.x(until), y);
  });
  pen.stroke();
  pen.setLineDash([]);
}

function drawSpread(view, { spread, shade, width }) {
  const { pen } = view;
  pen.fillStyle = pen.strokeStyle = colour(shade);
  pen.globalAlpha = 0.28;
  for (const [at, low, , high] of spread) {
    const top = view.y(high);
    pen.fillRect(view.x(at), top, Math.max(view.x(at + width) - view.x(at), 1), Math.max(view.y(low) - top, 0));
  }
  pen.globalAlpha = 1;
  pen.lineWidth = 1.6;
  pen.beginPath();
  let last = -Infinity;
  for (const [at, , mean] of spread) {
    if (at - last > 2 * width) pen.moveTo(view.x(at), view.y(mean)); else pen.lineTo(view.x(at), view.y(mean));
    pen.lineTo(view.x(at + width), view.y(mean));
    last = at;
  }
  pen.stroke();
}

function bounds(curves, from, until) {
  let [low, high] = [0, 0];
  for (const { steps, spread } of curves) {
    for (const [at, value] of steps ?? []) if (at < until && value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
    for (const [at, least, , most] of spread ?? []) if (at >= from) [low, high] = [Math.min(low, least), Math.max(high, most)];
  }
  const room = (high - low || 1) * 0.08;
  return [low < 0 ? low - room : 0, high + room];
}

export function show(canvas, x, y, title, lines) {
  const box = tip();
  box.replaceChildren(element("b", title));
  for (const [label, value] of lines) {
    const line = element("div");
    line.append(element("span", label), element("span", value));
    box.append(line);
  }
  box.hidden = false;
  const place = canvas.getBoundingClientRect();
  const left = place.left + x + 14;
  box.style.left = `${Math.max(4, left + box.offsetWidth > innerWidth - 4 ? place.left + x - box.offsetWidth - 14 : left)}px`;
  box.style.top = `${Math.max(4, Math.min(place.top + y + 14, innerHeight - box.offsetHeight - 4))}px`;
}

export function hide() {
  tip().hidden = true;
}

// Calls `at(x, y)` for the pointer, and for arrow keys that move a cursor within the plot.
export function listen(canvas, plot, at) {
  let cursor = null;
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    at(event.clientX - box.left, event.clientY - box.top);
  });
  canvas.addEventListener("pointerleave", hide);
  canvas.addEventListener("blur", () => { cursor = null; hide(); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const { left, right, top, bottom } = plot();
    const [x, y] = cursor ?? [(left + right) / 2, (top + bottom) / 2];
    cursor = [
      Math.min(right, Math.max(left, x + (step[0] * (right - left)) / 100)),
      Math.min(bottom, Math.max(top, y + (step[1] * (bottom - top)) / 40)),
    ];
    at(...cursor);
  });
}

// A figure of curves over [from, until]: { title, note, kind, axis, unit, height, curves, text }. A curve has a label, a
// shade, and `steps` [[time, value]] or a `spread` [[time, low, mean, high]] with a `width`; values are in thousandths.
export function chart(id, given) {
  let figure = given;
  let view = null;
  const panel = element("figure");
  const caption = element("figcaption", `${figure.title} `, { id: `${id}-title` });
  caption.append(element("span", figure.note, { class: "note" }));
  const canvas = element("canvas", undefined, { id, role: "img", tabindex: 0, "aria-labelledby": `${id}-title` });
  const list = element("ul", undefined, { class: "legend" });
  const details = element("details");
  details.append(element("summary", "Table of this figure"));
  details.addEventListener("toggle", fill);
  panel.append(caption, list, canvas, details);

  function fill() {
    if (!details.open) return;
    const rows = [];
    const times = new Set(figure.curves.flatMap(({ steps, spread }) => (steps ?? spread).map(([at]) => at)).filter((at) => at >= figure.from && at <= figure.until));
    const all = [...times].sort((a, b) => a - b);
    const every = Math.max(1, Math.ceil(all.length / 200));
    for (let at = 0; at < all.length; at += every) rows.push([time(all[at]), ...values(all[at]).map(([, text]) => text)]);
    details.querySelector(".scroll")?.remove();
    details.append(grid(["Time", ...figure.curves.map(({ label }) => [label, "number"])], rows, `Values of ${figure.title}`));
  }

  function values(at) {
    return figure.curves.map(({ label, steps, spread, width }) => {
      if (steps) {
        const value = valueAt(steps, at);
        return [label, value === null ? "-" : figure.text(value)];
      }
      const bucket = spread.findLast(([begin]) => begin <= at);
      if (!bucket || at - bucket[0] >= width) return [label, "-"];
      const [, low, mean, high] = bucket;
      return [label, low === high ? figure.text(mean) : `${figure.text(mean)} (${figure.text(low)} to ${figure.text(high)})`];
    });
  }

  function paint() {
    if (!canvas.isConnected || canvas.clientWidth === 0) return;
    const [low, high] = bounds(figure.curves, figure.from, figure.until);
    view = frame(canvas, figure.height, figure.from, figure.until, low, high);
    const [unit, size] = unitFor(figure.kind, Math.max(Math.abs(low), high));
    axes(view, `${figure.axis} (${figure.unit ?? unit})`, size, timesOfDay);
    const { pen, plot } = view;
    pen.save();
    pen.beginPath();
    pen.rect(plot.left, plot.top, plot.right - plot.left, plot.bottom - plot.top);
    pen.clip();
    for (const curve of figure.curves) if (curve.spread) drawSpread(view, curve); else drawSteps(view, curve);
    present(view);
    pen.restore();
  }

  list.append(...figure.curves.map((curve) => {
    const item = element("li");
    item.append(swatch({ colour: curve.shade, dash: curve.dash, band: Boolean(curve.spread) }), element("span", curve.label));
    return item;
  }));
  listen(canvas, () => view.plot, (x, y) => {
    const { plot } = view;
    if (x < plot.left || x > plot.right || y < plot.top || y > plot.bottom) return hide();
    show(canvas, x, y, time(view.time(x)), values(view.time(x)));
  });
  new ResizeObserver(paint).observe(panel);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  return { panel, update(changed) { figure = { ...figure, ...changed }; paint(); fill(); } };
}

// The line of the present.
export function present(view) {
  const { pen, plot } = view;
  const x = view.x(Date.now());
  if (x < plot.left || x > plot.right) return;
  pen.strokeStyle = colour("muted");
  pen.lineWidth = 1;
  pen.setLineDash([3, 3]);
  pen.beginPath();
  pen.moveTo(x, plot.top);
  pen.lineTo(x, plot.bottom);
  pen.stroke();
  pen.setLineDash([]);
}

export { timesOfDay };
