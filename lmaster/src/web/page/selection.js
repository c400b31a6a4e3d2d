// The selected jobs of a list, and actions on all of them at once.

import { element, number } from "/shared.js";
import { act, failure } from "/api.js";

const ACTIONS = { cancel: "Cancel", hold: "Hold", release: "Release" };

const jobsOf = (count) => `${number(count)} ${count === 1 ? "job" : "jobs"}`;

// Returns the bar of actions, and functions that make the boxes of a list: one for all shown jobs, and one for each. Jobs
// stay selected when the list is made again. `then` is called after an action.
export function selection(then) {
  const chosen = new Set();
  let [boxes, all, last] = [[], null, null];
  const bar = element("div", undefined, { class: "selection", role: "group", "aria-label": "Actions on selected jobs" });
  const count = element("span");
  const said = element("div", undefined, { role: "status" });
  const buttons = Object.entries(ACTIONS).map(([action, text]) => {
    const button = element("button", `${text} selected`, { type: "button" });
    button.addEventListener("click", () => run(action));
    return button;
  });
  bar.append(...buttons, count);

  function update(isBusy = false) {
    for (const button of buttons) button.disabled = isBusy || chosen.size === 0;
    count.textContent = chosen.size === 0 ? "No job is selected." : `${jobsOf(chosen.size)} selected`;
    for (const box of boxes) box.checked = chosen.has(Number(box.value));
    if (!all) return;
    all.checked = boxes.length > 0 && chosen.size === boxes.length;
    all.indeterminate = chosen.size > 0 && chosen.size < boxes.length;
  }

  function choose(box, isChosen) {
    if (isChosen) chosen.add(Number(box.value)); else chosen.delete(Number(box.value));
  }

  async function run(action) {
    const jobs = [...chosen];
    if (!confirm(`${ACTIONS[action]} ${jobsOf(jobs.length)}?`)) return;
    update(true);
    try {
      const { results } = await act(`jobs/selected/${action}`, { jobs });
      const refused = results.filter(({ error }) => error !== null);
      for (const { id, error } of results) if (error === null) chosen.delete(id);
      const list = element("ul");
      for (const { id, error } of refused) list.append(element("li", `Job ${id}: ${error}`));
      const title = element("p", `${ACTIONS[action]}: ${number(results.length - refused.length)} done, ${number(refused.length)} refused`);
      said.replaceChildren(title, ...(refused.length ? [list] : []));
      said.className = refused.length ? "trouble" : "done";
    } catch (error) {
      said.className = "";
      said.replaceChildren(failure(error));
    }
    await then().catch(() => {});
    update();
  }

  function boxOf(id) {
    const box = element("input", undefined, { type: "checkbox", value: String(id), "aria-label": `Select job ${id}` });
    box.addEventListener("click", (event) => {
      const [from, to] = [boxes.findIndex((other) => Number(other.value) === last), boxes.indexOf(box)];
      const range = event.shiftKey && from >= 0 ? boxes.slice(Math.min(from, to), Math.max(from, to) + 1) : [box];
      for (const other of range) choose(other, box.checked);
      last = id;
      update();
    });
    box.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      const next = step && boxes[boxes.indexOf(box) + step];
      if (!next) return;
      event.preventDefault();
      next.focus();
    });
    boxes.push(box);
    return box;
  }

  // The boxes of a new list; jobs that it lacks are no longer selected.
  function boxesOf(ids) {
    boxes = [];
    for (const id of [...chosen]) if (!ids.includes(id)) chosen.delete(id);
    const made = ids.map(boxOf);
    const head = element("label", undefined, { class: "all" });
    all = element("input", undefined, { type: "checkbox" });
    all.addEventListener("change", () => {
      for (const box of boxes) choose(box, all.checked);
      update();
    });
    head.append(all, "All");
    update();
    return [head, made];
  }

  update();
  return { bar, said, boxesOf };
}
