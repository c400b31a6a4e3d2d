// Energy and cost by user, application, group, node, state or day.

import { element, number } from "/shared.js";
import { ask, grid, joules, money, select, share } from "/api.js";
import { go } from "/main.js";

const BY = { user: "User", application: "Application", account: "Account", group: "Group of nodes", node: "Node", state: "State of nodes", day: "Day" };
const DAYS = { 1: "1 day", 7: "7 days", 30: "30 days", 365: "365 days" };
const OF_NODES = ["group", "node", "state"];

// The shares of the energy by the way in which they are known.
function sources(sum) {
  if (sum.energy_j <= 0) return "-";
  const unknown = sum.energy_j - sum.measured_j - sum.estimated_j - sum.emulated_j;
  const parts = [["measured", sum.measured_j], ["emulated", sum.emulated_j], ["estimated", sum.estimated_j], ["unknown", unknown]];
  const shown = parts.filter(([, part]) => part > sum.energy_j * 0.001);
  return shown.map(([word, part]) => (shown.length > 1 ? `${share(part / sum.energy_j)} ${word}` : word)).join(", ");
}

export default async function energy(content, query) {
  const by = Object.hasOwn(BY, query.get("by")) ? query.get("by") : "user";
  const days = Object.hasOwn(DAYS, query.get("days")) ? query.get("days") : "30";
  const form = element("form", undefined, { class: "filters" });
  form.append(
    select("Sums by", BY, by, (value) => go(`/energy?by=${value}&days=${days}`)),
    select("Last", DAYS, days, (value) => go(`/energy?by=${by}&days=${value}`)),
  );
  content.append(form);
  const now = Date.now();
  const report = await ask("energy", { by, from_unix_ms: Math.round(now - Number(days) * 864e5), until_unix_ms: Math.round(now), limit: 200 });
  const nodes = OF_NODES.includes(by);
  const most = Math.max(...report.sums.map((sum) => sum.energy_j), 1e-9);
  const row = (sum, name) => {
    const bar = element("span", undefined, { class: "bar" });
    bar.style.width = `${Math.max(0, (sum.energy_j / most) * 160)}px`;
    const cells = [name, joules(sum.energy_j), name === "Total" ? "" : bar, sources(sum)];
    if (!nodes) cells.splice(1, 0, number(sum.jobs)), cells.push(...[sum.cost, sum.start_now_cost, sum.saved].map((cost) => money(cost, report.currency)));
    return cells;
  };
  const columns = [BY[by], ["Energy", "number"], "Compared", "How it is known"];
  if (!nodes) columns.splice(1, 0, ["Jobs", "number"]), columns.push(["Cost", "number"], ["If started at once", "number"], ["Saved", "number"]);
  const rows = report.sums.map((sum) => row(sum, sum.key || "none"));
  rows.push(row(report.total, "Total"));
  content.append(
    grid(columns, rows, `Energy by ${BY[by]}`),
    element("p", nodes ? "With idle draw, as meters showed it; nodes without a meter count only in the total, which estimates them." : "Above idle, of finished jobs.", { class: "note" }),
  );
}
