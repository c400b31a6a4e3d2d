// The frame of the page: its views by address, links within the page, and the state of each second.

import { element } from "/shared.js";
import { failure, time } from "/api.js";
import { hide } from "/chart.js";
import overview from "/overview.js";
import { job, jobs } from "/jobs.js";
import nodes from "/nodes.js";
import plan from "/plan.js";
import energy from "/energy.js";
import changes from "/changes.js";

// Each view fills its place, and returns a function that takes the state of each second, or nothing.
const VIEWS = [
  ["/", "Overview", overview],
  ["/jobs", "Jobs", jobs],
  ["/nodes", "Nodes", nodes],
  ["/plan", "Plan", plan],
  ["/energy", "Energy", energy],
  ["/changes", "Changes", changes],
];

const [place, bar, live] = ["view", "views", "live"].map((id) => document.getElementById(id));
let tick = null;
let newest = null;
// Views that load slowly must not replace a later one.
let turn = 0;

for (const [href, name] of VIEWS) bar.append(element("a", name, { href }));

async function open(focus) {
  const mine = ++turn;
  const { pathname, searchParams } = new URL(location.href);
  const view = VIEWS.find(([href]) => href === pathname);
  const number = pathname.match(/^\/jobs\/(\d+)$/)?.[1];
  const name = number ? `Job ${number}` : view?.[1] ?? "Not found";
  document.title = `${name} - Limo`;
  for (const link of bar.children) {
    const here = link.getAttribute("href") === pathname || (number && link.getAttribute("href") === "/jobs");
    if (here) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  hide();
  tick = null;
  const content = element("div");
  content.append(element("h1", name));
  const isOpen = () => mine === turn;
  try {
    const follow = await (number ? job(content, number, isOpen) : view?.[2](content, searchParams, isOpen));
    if (!isOpen()) return;
    tick = follow ?? null;
  } catch (error) {
    if (!isOpen()) return;
    content.append(failure(error));
  }
  place.replaceChildren(content);
  if (tick && newest) tick(newest);
  if (focus) place.focus();
  document.body.dataset.ready = pathname;
  // The second frame has the charts, which draw when their size is known.
  if (mine === 1) requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("shown")));
}

// Goes to another address within the page.
export function go(href, replace = false) {
  delete document.body.dataset.ready;
  history[replace ? "replaceState" : "pushState"](null, "", href);
  open(!replace);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
addEventListener("popstate", () => open(true));

const events = new EventSource("/api/v1/events");
events.addEventListener("overview", (event) => {
  newest = JSON.parse(event.data);
  live.textContent = `live, ${time(newest.now_unix_ms)}`;
  if (tick) tick(newest);
});
events.addEventListener("error", () => { live.textContent = "not connected; retrying"; });

open(false);
