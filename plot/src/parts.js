// Parts of pages with figures: elements, legends, tables, patterns. Knows no data.

// A new element with text and attributes.
function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// The sample of a curve or an area in a legend.
function swatch({ colour, dash, band, hatch, area }) {
  // A page without network has no address in it, not even that of a name space.
  const holder = document.createElement("template");
  holder.innerHTML = "<svg></svg>";
  const svg = holder.content.firstChild;
  for (const [key, value] of [["width", 26], ["height", 14], ["aria-hidden", true]]) svg.setAttribute(key, value);
  // Styles are set as properties: a strict content policy refuses attributes.
  const add = (name, attributes, [property, shade]) => {
    const part = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
    part.style[property] = `var(--${shade})`;
    svg.append(part);
  };
  if (area || band) add("rect", { width: 26, height: 14, "fill-opacity": area ? 1 : 0.28 }, ["fill", colour]);
  if (hatch) {
    for (const x of [-4, 3, 10, 17, 24]) {
      const [y1, y2] = hatch > 0 ? [14, 0] : [0, 14];
      add("line", { x1: x, y1, x2: x + 14, y2, "stroke-width": 1.5 }, ["stroke", "gap"]);
    }
  }
  if (!area) add("line", { x1: 0, y1: 7, x2: 26, y2: 7, "stroke-width": 2, "stroke-dasharray": (dash ?? []).join(" ") }, ["stroke", colour]);
  return svg;
}

// A table with its remark, in a box that scrolls.
function table(head, rows, remark) {
  const box = element("div", undefined, { class: "scroll", tabindex: 0 });
  const made = element("table");
  const line = (cells, name) => {
    const row = element("tr");
    for (const cell of cells) row.append(element(name, cell));
    return row;
  };
  const [top, body] = [element("thead"), element("tbody")];
  top.append(line(head, "th"));
  for (const row of rows) body.append(line(row, "td"));
  made.append(element("caption", remark, { class: "note" }), top, body);
  box.append(made);
  return box;
}

// A pattern of slanted lines over a colour, so that areas differ by more than colour. `slant` is 1 or -1.
function hatched(pen, base, slant) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const ink = tile.getContext("2d");
  ink.fillStyle = base;
  ink.fillRect(0, 0, 6, 6);
  ink.strokeStyle = colour("gap");
  ink.lineWidth = 1.2;
  for (const shift of [-6, 0, 6]) {
    ink.beginPath();
    ink.moveTo(shift, slant > 0 ? 6 : 0);
    ink.lineTo(shift + 6, slant > 0 ? 0 : 6);
    ink.stroke();
  }
  return pen.createPattern(tile, "repeat");
}
