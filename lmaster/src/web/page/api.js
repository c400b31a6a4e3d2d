// Questions to the master, and words for its values.

import { element, number, quantity } from "/shared.js";

// Asks for a document; an error has the master's reason.
export async function ask(path, query = {}) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined && value !== null && value !== "") search.set(key, value);
  const answer = await fetch(`/api/v1/${path}${search.size ? `?${search}` : ""}`);
  const document = await answer.json();
  if (!answer.ok) throw new Error(document.error);
  return document;
}

// Changes something; the master says why not.
export async function act(path, body = {}) {
  const headers = { "Content-Type": "application/json", "X-Limo": "act" };
  const answer = await fetch(`/api/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const document = await answer.json();
  if (!answer.ok) throw new Error(document.error);
  return document;
}

let session = null;

// True if this browser may change something; asked once.
export async function mayAct() {
  session ??= ask("session").then(({ may_act }) => may_act, () => false);
  return session;
}

// A button that asks before it acts, and shows an error beside it.
export function button(text, question, path, then) {
  const made = element("button", text, { type: "button" });
  made.addEventListener("click", async () => {
    if (!confirm(question)) return;
    made.disabled = true;
    try {
      await act(path);
      then();
    } catch (error) {
      made.disabled = false;
      made.parentElement.querySelector(".trouble")?.remove();
      made.after(failure(error));
    }
  });
  return made;
}

// Values of the API are in base units; those of the figures in thousandths.
export const watts = (value) => (value === null ? "-" : quantity("power", value * 1e3));
export const joules = (value) => (value === null ? "-" : quantity("energy", value * 1e3));
export const money = (value, currency) => (value === null || value === undefined ? "-" : `${amount(value)} ${currency}`);
export const price = (value, currency) => (value === null ? "-" : `${number(value)} ${currency}/MWh`);
export const share = (value) => (value === null ? "-" : `${number(value * 100)} %`);

function amount(value) {
  const digits = Math.abs(value) > 0 && Math.abs(value) < 0.1 ? { maximumSignificantDigits: 2 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return value.toLocaleString("en", digits);
}

export function time(ms) {
  if (ms === null || ms === undefined) return "-";
  const at = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return at.toDateString() === new Date().toDateString() ? clock : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}`;
}

// The way in which a figure is known, as a mark beside it.
export function how(word) {
  return element("span", word, { class: "how" });
}

export function howOf(job) {
  return job.emulated ? "emulated" : job.energy_measured ? "measured" : "estimated";
}

export function state(word) {
  return element("span", word.replaceAll("_", " "), { class: `state ${word}` });
}

export function link(href, text) {
  return element("a", text, { href });
}

// A table whose cells are texts or elements. Columns are names, or [name, class].
export function grid(columns, rows, label) {
  const box = element("div", undefined, { class: "scroll", tabindex: 0, role: "region", "aria-label": label });
  const table = element("table");
  const head = element("tr");
  const names = columns.map((column) => (Array.isArray(column) ? column : [column]));
  for (const [name, kind] of names) {
    const cell = element("th", typeof name === "string" ? name : undefined, { scope: "col", ...(kind && { class: kind }) });
    if (typeof name !== "string") cell.append(name);
    head.append(cell);
  }
  const [top, body] = [element("thead"), element("tbody")];
  top.append(head);
  for (const cells of rows) {
    const row = element("tr");
    cells.forEach((cell, at) => {
      const kind = names[at][1];
      const made = element("td", undefined, kind ? { class: kind } : {});
      made.append(cell ?? "-");
      row.append(made);
    });
    body.append(row);
  }
  table.append(top, body);
  box.append(table);
  return box;
}

export function facts(entries) {
  const list = element("dl", undefined, { class: "facts" });
  for (const [name, ...values] of entries) {
    if (values[0] === null || values[0] === undefined || values[0] === "-") continue;
    const value = element("dd");
    value.append(...values.flatMap((part) => [part, " "]));
    list.append(element("dt", name), value);
  }
  return list;
}

// A choice of values, by their texts.
export function select(label, entries, chosen, changed) {
  const box = element("label", label);
  const choice = element("select");
  for (const [value, text] of Object.entries(entries)) {
    const entry = element("option", text, { value });
    entry.selected = value === chosen;
    choice.append(entry);
  }
  choice.addEventListener("change", () => changed(choice.value));
  box.append(choice);
  return box;
}

// A command to type, with a button that copies it.
export function command(text) {
  const line = element("p", undefined, { class: "command" });
  const copy = element("button", "Copy", { type: "button", "aria-label": `Copy ${text}` });
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
      copy.removeAttribute("aria-label");
    } catch {
      getSelection().selectAllChildren(line.firstChild);
    }
  });
  line.append(element("code", text), copy);
  return line;
}

export function failure(error) {
  const box = element("p", error.message, { class: "trouble", role: "alert" });
  return box;
}
