// All nodes as a map of squares, coloured by draw, state, cap or cores; and the table behind it.

import { colour, element, number } from "/shared.js";
import { ask, grid, how, joules, link, select, state, watts } from "/api.js";
import { hide, listen, show } from "/chart.js";
import { go } from "/main.js";

const BY = { draw: "Draw", state: "State", cap: "Cap", cores: "Cores in use" };
const SHADES = { up: "blue", drained: "amber", unreachable: "red", lost: "red", suspect: "orange", owner: "violet", asleep: "grey", waking: "blue3", falling_asleep: "grey" };
const ROWS = 50;

// The part of the greatest value, 0 to 1, or a shade.
function scale(map, by) {
  if (by === "state") return (at) => SHADES[map.states[at]] ?? "grey";
  const values = { draw: map.draw_w, cap: map.cap_w, cores: map.cores_used.map((used, at) => used / Math.max(map.cores[at], 1)) }[by];
  const most = by === "cores" ? 1 : Math.max(...values.map((value) => value ?? 0), 1e-9);
  return (at) => (values[at] === null ? null : values[at] / most);
}

function paint(canvas, map, by) {
  const count = map.names.length;
  const width = canvas.clientWidth;
  const side = Math.max(4, Math.min(34, Math.floor(Math.sqrt((width * 420) / Math.max(count, 1)))));
  const columns = Math.max(1, Math.floor(width / side));
  const height = Math.max(side, Math.ceil(count / columns) * side);
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const part = scale(map, by);
  const [base, full, empty] = ["blue", "blue", "grid"].map(colour);
  const shades = Object.fromEntries(["blue", "amber", "red", "orange", "violet", "grey", "blue3"].map((name) => [name, colour(name)]));
  const gap = side > 6 ? 2 : 1;
  for (let at = 0; at < count; at++) {
    const value = part(at);
    const [x, y] = [(at % columns) * side, Math.floor(at / columns) * side];
    pen.globalAlpha = 1;
    pen.fillStyle = typeof value === "string" ? shades[value] : empty;
    pen.fillRect(x, y, side - gap, side - gap);
    if (typeof value !== "number") continue;
    pen.globalAlpha = 0.12 + 0.88 * value;
    pen.fillStyle = value > 0.5 ? full : base;
    pen.fillRect(x, y, side - gap, side - gap);
  }
  pen.globalAlpha = 1;
  return { columns, side, right: columns * side, bottom: height };
}

function note(map, by) {
  if (by === "state") return "blue: up, amber: drained, red: unreachable or lost, orange: suspect, violet: its owner is there, grey: asleep";
  if (by === "cap") return `stronger: a higher cap, at most ${watts(Math.max(...map.cap_w.map((cap) => cap ?? 0)))}; empty: no cap`;
  if (by === "cores") return "stronger: more of its cores are in use";
  const ways = [...new Set(map.how)].join(" and ") || "unknown";
  return `stronger: more draw, at most ${watts(Math.max(...map.draw_w, 0))}; ${ways}`;
}

function row(node) {
  const [cores, used] = ["cores", "cores_used"].map((key) => node.units.reduce((sum, unit) => sum + (unit.kind === "cpu" ? unit[key] : 0), 0));
  const jobs = [...new Set(node.units.flatMap((unit) => unit.jobs))];
  const list = element("span");
  jobs.slice(0, 8).forEach((id) => list.append(link(`/jobs/${id}`, String(id)), " "));
  if (jobs.length > 8) list.append(link(`/jobs?node=${encodeURIComponent(node.name)}`, `and ${number(jobs.length - 8)} more`));
  const draw = element("span", `${watts(node.draw_w)} `);
  draw.append(how(node.emulated ? "emulated" : node.measured ? "measured" : "estimated"));
  const caps = node.units.map((unit) => unit.cap_w).filter((cap) => cap !== null);
  return [link(`/nodes?node=${encodeURIComponent(node.name)}`, node.name), state(node.state), draw, watts(caps.length ? caps.reduce((a, b) => a + b) : null),
    `${number(used)} of ${number(cores)}`, joules(node.energy_j), list, node.reason ?? ""];
}

export default async function nodes(content, query, isOpen) {
  const by = Object.hasOwn(BY, query.get("by")) ? query.get("by") : "draw";
  const asked = { node: query.get("node"), cursor: query.get("cursor") };
  let [map, page] = await Promise.all([ask("map"), ask("nodes", { ...asked, limit: ROWS })]);
  const form = element("form", undefined, { class: "filters" });
  form.append(select("Map by", BY, by, (value) => go(`/nodes?by=${value}`)));
  const figure = element("figure");
  const caption = element("figcaption", `${number(map.names.length)} nodes `, { id: "map-title" });
  const remark = element("span", `- ${note(map, by)}`, { class: "note" });
  caption.append(remark);
  const canvas = element("canvas", undefined, { id: "map", role: "img", tabindex: 0, "aria-labelledby": "map-title" });
  figure.append(caption, canvas);
  let place = null;
  const nodeAt = (x, y) => {
    const column = Math.floor(x / place.side);
    const at = Math.floor(y / place.side) * place.columns + column;
    return x >= 0 && y >= 0 && column < place.columns && at < map.names.length ? at : -1;
  };
  const draw = () => { if (canvas.clientWidth > 0) place = paint(canvas, map, by); };
  listen(canvas, () => ({ left: 1, right: place.right - 1, top: 1, bottom: place.bottom - 1 }), (x, y) => {
    const at = nodeAt(x, y);
    if (at < 0) return hide();
    show(canvas, x, y, map.names[at], [["state", map.states[at].replaceAll("_", " ")], [`draw (${map.how[at]})`, watts(map.draw_w[at])],
      ["cap", watts(map.cap_w[at])], ["cores", `${map.cores_used[at]} of ${map.cores[at]}`]]);
  });
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = nodeAt(event.clientX - box.left, event.clientY - box.top);
    if (at >= 0) go(`/nodes?by=${by}&node=${encodeURIComponent(map.names[at])}`);
  });
  new ResizeObserver(draw).observe(figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const table = element("div");
  const columns = ["Node", "State", ["Draw", "number"], ["Cap", "number"], ["Cores in use", "number"], ["Energy", "number"], "Jobs", ["Reason", "wide"]];
  const pages = element("p", undefined, { class: "pages" });
  const [first, next] = [element("button", "First page", { type: "button" }), element("button", "Next page", { type: "button" })];
  first.disabled = !asked.cursor && !asked.node;
  first.addEventListener("click", () => go(`/nodes?by=${by}`));
  next.disabled = page.cursor === null;
  next.addEventListener("click", () => go(`/nodes?${new URLSearchParams({ by, cursor: page.cursor })}`));
  pages.append(first, next, element("span", asked.node ? `only ${asked.node}` : `${ROWS} nodes a page, by name`));
  const fill = () => table.replaceChildren(page.nodes.length ? grid(columns, page.nodes.map(row), "Nodes") : element("p", "No node fits.", { class: "note" }));
  fill();
  content.append(form, figure, table, pages);
  let age = 0;
  return () => {
    if (++age % 5 !== 0 || document.hidden || table.matches(":hover, :focus-within")) return;
    Promise.all([ask("map"), ask("nodes", { ...asked, limit: ROWS })]).then(([later, rows]) => {
      if (!isOpen()) return;
      [map, page] = [later, rows];
      remark.textContent = `- ${note(map, by)}`;
      draw();
      fill();
    }).catch(() => {});
  };
}
