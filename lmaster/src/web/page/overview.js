// The state of the cluster: draw in its limits from yesterday to tomorrow, prices, cost, and the reasons of the queue.

import { element, number, quantity } from "/shared.js";
import { ask, grid, how, joules, link, money, price, select, share, time, watts } from "/api.js";
import { chart } from "/chart.js";
import { go } from "/main.js";

const HOUR = 36e5;
const HOURS = ["2", "12", "24", "72"];
const EVERY = 60;

function tiles(state) {
  const limits = state.band_high_w === null && state.band_low_w === null ? "no limits"
    : state.band_low_w === null ? `at most ${watts(state.band_high_w)}`
    : state.band_high_w === null ? `at least ${watts(state.band_low_w)}`
    : `${watts(state.band_low_w)} to ${watts(state.band_high_w)}`;
  const parts = [["measured", state.measured_w], ["estimated", state.estimated_w], ["emulated", state.emulated_w]].filter(([, part]) => part > 0);
  const saved = state.jobs_cost === null || state.jobs_start_now_cost === null ? null : state.jobs_start_now_cost - state.jobs_cost;
  const next = state.next_price_unix_ms === null ? "" : `${price(state.next_price_per_mwh, state.currency)} from ${time(state.next_price_unix_ms)}`;
  const nodes = Object.entries(state.nodes).map(([name, count]) => `${number(count)} ${name.replaceAll("_", " ")}`).join(", ");
  const budget = state.budget;
  return [
    ["Draw", watts(state.draw_w), parts.map(([word, part]) => how(parts.length > 1 ? `${word} ${watts(part)}` : word))],
    ["Limits", limits, [`${share(state.in_band_share)} of the time inside`]],
    ["Price", price(state.price_per_mwh, state.currency), [next]],
    ["Jobs", `${number(state.running)} running`, [`${number(state.waiting)} waiting`]],
    ["Cores", `${number(state.cores_used)} of ${number(state.cores)}`, [nodes]],
    ["Cost of finished jobs", money(state.jobs_cost, state.currency), [saved === null ? "no price was known" : `${money(saved, state.currency)} saved beside start-now`]],
    ...(budget === null ? [] : [["Budget", `${joules(budget.spent_j)} of ${joules(budget.energy_j)}`, [`${joules(budget.released_j)} released`]]]),
    ["Policy", state.policy, [`mode ${state.mode}`]],
  ];
}

function showTiles(list, state) {
  list.replaceChildren(...tiles(state).map(([name, value, more]) => {
    const tile = element("div");
    const rest = element("dd", undefined, { class: "more" });
    rest.append(...more.flatMap((part) => [part, " "]));
    tile.append(element("dt", name), element("dd", value, { class: "value" }), rest);
    return tile;
  }));
}

function counts(title, entries, href) {
  const most = Math.max(...entries.map(([, count]) => count), 1);
  const rows = entries.toSorted((a, b) => b[1] - a[1]).map(([name, count]) => {
    const bar = element("span", undefined, { class: "bar" });
    bar.style.width = `${(count / most) * 140}px`;
    return [href ? link(href(name), name.replaceAll("_", " ")) : name.replaceAll("_", " "), number(count), bar];
  });
  const box = element("section");
  box.append(element("h2", title));
  box.append(rows.length ? grid([title, ["Number", "number"], "Share"], rows, title) : element("p", "none", { class: "note" }));
  return box;
}

// The curves of both figures.
async function curves(hours) {
  const now = Date.now();
  const [from, until] = [now - hours * HOUR, now + hours * HOUR];
  const range = { from_unix_ms: Math.round(from), until_unix_ms: Math.round(until) };
  const [drawn, plan] = await Promise.all([ask("draw", { ...range, until_unix_ms: Math.round(now) }), ask("plan", range)]);
  const milli = (value) => (value === null ? null : value * 1e3);
  const steps = (list, key) => list.map((step) => [step.at_unix_ms, milli(step[key])]);
  const spread = drawn.draw.map(({ at_unix_ms, low_w, mean_w, high_w }) => [at_unix_ms, ...[low_w, mean_w, high_w].map(milli)]);
  const limits = [
    { label: "upper limit", shade: "red", dash: [8, 4], steps: steps(plan.limits, "high_w") },
    { label: "lower limit", shade: "violet", dash: [8, 3, 2, 3], steps: steps(plan.limits, "low_w") },
  ].filter((curve) => curve.steps.some(([, value]) => value !== null));
  const draw = { label: "draw", shade: "blue", spread, width: drawn.bucket_s * 1e3 };
  return {
    draw: { from, until, curves: [draw, ...limits] },
    price: { from, until, curves: [{ label: "price", shade: "green", steps: steps(plan.prices, "price_per_mwh") }] },
    currency: plan.currency,
    source: drawn.emulated ? "emulated" : "measured, nodes without a meter estimated",
    priced: plan.prices.some((step) => step.price_per_mwh !== null),
  };
}

export default async function overview(content, query) {
  const hours = HOURS.includes(query.get("hours")) ? Number(query.get("hours")) : 24;
  const [state, first] = await Promise.all([ask("overview"), curves(hours)]);
  const form = element("form", undefined, { class: "filters" });
  form.append(select("Hours before and after now", Object.fromEntries(HOURS.map((count) => [count, count])), String(hours), (count) => go(`/?hours=${count}`)));
  const list = element("dl", undefined, { class: "tiles" });
  const trouble = element("p", undefined, { class: "trouble", role: "alert" });
  const queue = element("div", undefined, { class: "columns" });
  const draw = chart("draw", {
    title: "Draw", note: `- ${first.source}; line: mean, shade: least to greatest`, kind: "power", axis: "Power",
    height: 280, text: (value) => quantity("power", value), ...first.draw,
  });
  const cost = chart("price", {
    title: "Price of electricity", note: "- known and forecast", kind: "price", axis: "Price", unit: `${first.currency}/MWh`, height: 190,
    text: (value) => price(value / 1e3, first.currency), ...first.price,
  });
  content.append(trouble, list, form, draw.panel);
  content.append(first.priced ? cost.panel : element("p", "No price of electricity is known.", { class: "note" }), queue);
  let age = 0;
  const follow = (newest) => {
    trouble.hidden = newest.trouble === null;
    trouble.textContent = newest.trouble === null ? "" : `New jobs are refused: ${newest.trouble}`;
    showTiles(list, newest);
    queue.replaceChildren(
      counts("Waiting by reason", Object.entries(newest.waiting_by_reason)),
      counts("Jobs by state", Object.entries(newest.jobs), (name) => `/jobs?state=${name}`),
      counts("Nodes by state", Object.entries(newest.nodes)),
    );
    if (++age % EVERY === 0) {
      curves(hours).then((later) => { draw.update(later.draw); cost.update(later.price); }).catch(() => {});
    }
  };
  follow(state);
  return follow;
}
