"use strict";
// The confidence of a method on in-distribution and out-of-distribution (OOD) data.

// Sets differ in colour and in dashes; the in-distribution set is solid.
const DASHES = ["none", "9 3", "3 2", "9 3 3 3", "5 2", "12 4"];

function styleSet(line, i, width) {
  line.style.stroke = `var(--set-${i % DASHES.length})`;
  line.style.strokeDasharray = DASHES[i % DASHES.length];
  line.style.strokeWidth = width;
  return line;
}

const setWidth = (i) => (i === 0 ? 3 : 2);

function setLegend(sets) {
  return el("div", { class: "legend lines" }, ...sets.map((set, i) => el("span", {},
    svg("svg", { viewBox: "0 0 36 12", "aria-hidden": "true" },
      styleSet(svg("path", { d: "M0 6L36 6" }), i, setWidth(i))),
    set.auroc === null ? set.name : `${set.name}: AUROC ${format(set.auroc)}`)));
}

// The outline of a histogram: two points per bin, and both ends on the baseline.
function steps(shares, base) {
  const edge = (i) => i / shares.length;
  const xs = [0, ...shares.flatMap((_, i) => [edge(i), edge(i + 1)]), 1];
  return [xs, [base, ...shares.flatMap((share) => [share, share]).map((s) => Math.max(s, base)), base]];
}

function confidenceSection(run) {
  const host = el("div"), names = el("div"), rows = run.confidence;
  let chosen = rows.length - 1, log = false, width = 0;
  function draw() {
    const { method, sets } = rows[chosen];
    names.replaceChildren(setLegend(sets));
    if (!width) return;
    // All methods share one range, so that they can be compared.
    const all = rows.flatMap((row) => row.sets.flatMap((set) => set.shares));
    const [low, high] = extent(all, log), base = log ? low / 2 : 0;
    const frame = chart(host, Math.min(width, 760), { xRange: [0, 1],
      yRange: log ? [base, high * 1.2] : [0, high * 1.05], log, xLabel: "confidence",
      yLabel: "share of the set",
      label: `confidence of ${method} on ${sets.map((set) => set.name).join(", ")}` });
    sets.map((set, i) => [set, i]).reverse().forEach(([set, i]) => {
      const [xs, ys] = steps(set.shares, base);
      styleSet(addLine(frame, xs, ys, set.name), i, setWidth(i));
    });
  }
  whenSized(host, (w) => { width = w; draw(); });
  return el("div", {}, el("div", { class: "controls" },
    choice("Method", rows.map((row) => row.method), (i) => { chosen = i; draw(); }, chosen),
    choice("scale", ["linear", "logarithmic"], (i) => { log = i === 1; draw(); })), names, host);
}
