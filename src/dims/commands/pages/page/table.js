"use strict";
// A table that can be sorted by every column and filtered by some.

const ROWS_AT_ONCE = 200;

function compareCells(a, b) {
  const missing = (value) => value === null || value === undefined;
  if (missing(a) || missing(b)) return missing(a) - missing(b); // last in both directions
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b));
}

const cellText = (cell, { decimals }) =>
  decimals === undefined || typeof cell !== "number" ? format(cell) : cell.toFixed(decimals);

function dataTable(data) {
  const state = { column: null, down: false, wanted: new Map(), shown: ROWS_AT_ONCE };
  const numbers = data.columns.map((_, i) => data.rows.some((row) => typeof row[i] === "number"));
  const body = el("tbody"), count = el("output", { class: "note", "aria-live": "polite" });
  const more = el("button", { type: "button", onclick: () => { state.shown += 5 * ROWS_AT_ONCE; draw(); } },
    "Show more");
  const heads = data.columns.map((column, i) => el("th",
    { scope: "col", title: column.hint || null, class: numbers[i] ? "number" : null },
    el("button", { type: "button", onclick: () => sortBy(i) }, column.label)));

  function sortBy(i) {
    state.down = state.column === i && !state.down;
    state.column = i;
    draw();
  }

  function draw() {
    const wanted = [...state.wanted];
    let rows = data.rows.filter((row) => wanted.every(([i, value]) => String(row[i]) === value));
    if (state.column !== null) {
      const i = state.column, sign = state.down ? -1 : 1;
      const present = rows.filter((row) => row[i] !== null);
      rows = [...present.sort((a, b) => sign * compareCells(a[i], b[i])),
        ...rows.filter((row) => row[i] === null)];
    }
    heads.forEach((head, i) => head.setAttribute("aria-sort",
      state.column !== i ? "none" : state.down ? "descending" : "ascending"));
    body.replaceChildren(...rows.slice(0, state.shown).map((row) => el("tr", {},
      ...row.map((cell, i) => el("td", { class: numbers[i] ? "number" : null }, cellText(cell, data.columns[i]))))));
    count.textContent = `${rows.length} of ${data.rows.length} rows`;
    more.hidden = rows.length <= state.shown;
  }

  const controls = el("div", { class: "controls" });
  for (const column of data.filters) {
    const values = [...new Set(data.rows.map((row) => String(row[column])))].sort();
    const name = data.columns[column].label;
    controls.append(choice(`${name}:`, ["all", ...values], (i) => {
      if (i === 0) state.wanted.delete(column);
      else state.wanted.set(column, values[i - 1]);
      draw();
    }));
  }
  controls.append(count);
  draw();
  return el("div", {}, controls, el("div", { class: "scroll", tabindex: 0, role: "region",
    "aria-label": data.title }, el("table", { class: data.columns.length > 10 ? "dense" : null }, el("thead", {}, el("tr", {}, ...heads)), body)), more);
}
