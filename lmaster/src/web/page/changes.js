// Changes by operators, newest first.

import { element } from "/shared.js";
import { ask, button, grid, mayAct, time } from "/api.js";
import { go } from "/main.js";

const ROWS = 50;

function words(item) {
  return item.old ? `${item.subject}: ${item.old} → ${item.new || "none"}` : `${item.subject}: ${item.new}`;
}

export default async function changes(content, query) {
  const [page, may] = await Promise.all([ask("changes", { by: query.get("by"), cursor: query.get("cursor"), limit: ROWS }), mayAct()]);
  const rows = page.changes.map((change) => {
    const list = element("span", change.undo_of === null ? "" : `undo of ${change.undo_of}: `);
    change.items.forEach((item, at) => list.append(...(at ? [element("br")] : []), words(item)));
    if (change.more_items > 0) list.append(element("br"), `and ${change.more_items} more`);
    const undo = element("span");
    if (change.items.some((item) => item.can_undo)) {
      undo.append(may
        ? button("Undo", `Undo change ${change.number} by ${change.by}?`, `changes/${change.number}/undo`, () => go("/changes", true))
        : element("code", `lconf undo ${change.number}`));
    }
    return [String(change.number), time(change.at_unix_ms), change.by, list, undo];
  });
  content.append(rows.length
    ? grid([["Number", "number"], "Time", "By", ["Change", "wide"], "To undo it"], rows, "Changes")
    : element("p", "Nothing was changed yet.", { class: "note" }));
  const pages = element("p", undefined, { class: "pages" });
  const next = element("button", "Earlier changes", { type: "button" });
  next.disabled = page.cursor === null;
  next.addEventListener("click", () => go(`/changes?cursor=${page.cursor}`));
  pages.append(next);
  content.append(pages);
}
