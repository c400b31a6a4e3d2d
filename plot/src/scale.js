// Units, numbers and axes: from the fixed-point integers of the data to what people read. Draws axes, no curves.

const UNITS = {
  power: [["W", 1e3], ["kW", 1e6], ["MW", 1e9]],
  energy: [["J", 1e3], ["kJ", 1e6], ["kWh", 3.6e9], ["MWh", 3.6e12], ["GWh", 3.6e15]],
  price: [["EUR/MWh", 1e3]],
  jobs: [["jobs", 1]],
  processors: [["processors", 1]],
  time: [["s", 1e3], ["min", 6e4], ["h", 3.6e6], ["d", 8.64e7]],
};
const TIME_NAMES = { s: "seconds", min: "minutes", h: "hours", d: "days" };

// The largest unit of which `most` is at least `times`.
function unitFor(kind, most, times = 1) {
  const units = UNITS[kind];
  return units.findLast(([, size]) => Math.abs(most) >= times * size) ?? units[0];
}

function number(value, digits = 3) {
  return value.toLocaleString("en", { maximumSignificantDigits: Math.max(digits, Math.trunc(Math.abs(value)).toString().length) });
}

function quantity(kind, value) {
  const [name, size] = unitFor(kind, value);
  return `${number(value / size)} ${name}`;
}

// At most `most` terms, the last one cut.
function duration(ms, most = 2) {
  if (ms === 0) return "0 s";
  const parts = [];
  let rest = Math.abs(ms);
  for (const [name, size] of [["d", 8.64e7], ["h", 3.6e6], ["min", 6e4], ["s", 1e3]]) {
    const count = size === 1e3 && parts.length === 0 ? rest / size : Math.floor(rest / size);
    if (count > 0) parts.push(`${number(count)} ${name}`);
    rest -= Math.floor(rest / size) * size;
    if (parts.length === most) break;
  }
  return (ms < 0 ? "-" : "") + parts.join(" ");
}

// About `count` round numbers within [low, high].
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(at * step || 0);
  return { step, found };
}

function plain(value, step) {
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A canvas made ready: cleared, sharp on this screen, with the place of the plot and the way from values to pixels.
function frame(canvas, height, from, until, low, high) {
  const width = canvas.clientWidth;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const plot = { left: width < 560 ? 52 : 68, right: width - 14, top: 26, bottom: height - 40 };
  const x = (time) => plot.left + ((time - from) / (until - from)) * (plot.right - plot.left);
  const y = (value) => plot.bottom - ((value - low) / (high - low)) * (plot.bottom - plot.top);
  const time = (px) => from + ((px - plot.left) / (plot.right - plot.left)) * (until - from);
  const value = (px) => low + ((plot.bottom - px) / (plot.bottom - plot.top)) * (high - low);
  return { pen, width, height, plot, x, y, time, value, from, until, low, high };
}

// The axis of times since the start of a workload.
function sinceStart(view) {
  const [unit, ms] = unitFor("time", view.until - view.from, 3);
  const { step, found } = ticks(view.from / ms, view.until / ms, (view.plot.right - view.plot.left) / (view.width < 560 ? 48 : 80));
  return { name: `Time since the workload's start (${TIME_NAMES[unit]})`, ticks: found.map((at) => [at * ms, plain(at, step)]) };
}

// Grid, numbers and names of both axes; `size` is the unit's size in the data's integers.
function axes(view, yName, size, times = sinceStart) {
  const { pen, plot } = view;
  const font = getComputedStyle(document.body).fontFamily;
  pen.font = `12px ${font}`;
  pen.lineWidth = 1;
  pen.fillStyle = colour("muted");
  pen.strokeStyle = colour("grid");
  const line = (x1, y1, x2, y2) => {
    pen.beginPath();
    pen.moveTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
    pen.lineTo(Math.round(x2) + 0.5, Math.round(y2) + 0.5);
    pen.stroke();
  };
  const rows = ticks(view.low / size, view.high / size, (plot.bottom - plot.top) / 36);
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const at of rows.found) {
    line(plot.left, view.y(at * size), plot.right, view.y(at * size));
    pen.fillText(plain(at, rows.step), plot.left - 7, view.y(at * size));
  }
  pen.textAlign = "left";
  pen.textBaseline = "alphabetic";
  pen.fillText(yName, 0, 12);
  const { name, ticks: columns } = times(view);
  pen.textAlign = "center";
  pen.textBaseline = "top";
  for (const [at, text] of columns) {
    const x = view.x(at);
    line(x, plot.bottom, x, plot.bottom + 5);
    pen.fillText(text, x, plot.bottom + 8);
  }
  pen.fillText(name, (plot.left + plot.right) / 2, plot.bottom + 24);
  pen.strokeStyle = colour("muted");
  const zero = Math.min(Math.max(view.y(0), plot.top), plot.bottom);
  line(plot.left, zero, plot.right, zero);
  if (zero < plot.bottom) line(plot.left, plot.bottom, plot.right, plot.bottom);
  line(plot.left, plot.top, plot.left, plot.bottom);
}
