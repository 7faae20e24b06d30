"use strict";
// Right and wrong answers about classes: counts by confidence, and by class.

function addBar(frame, [left, right], [low, high], colour, title) {
  const x = frame.x(left) + 1, y = frame.y(high);
  const bar = svg("rect", { x, y, width: Math.max(1, frame.x(right) - x - 1), height: frame.y(low) - y },
    svg("title", {}, title));
  bar.style.fill = colour;
  frame.inside.append(bar);
}

// The numbers stand below their bars, because one wrong row of many has no height.
function countLines(width, frame, lines) {
  const node = svg("svg", { width, height: 17 * lines.length + 4, "aria-hidden": "true" });
  lines.forEach(([name, places, counts], i) => {
    const y = 17 * i + 12;
    node.append(svg("text", { x: 0, y }, name));
    counts.forEach((count, k) =>
      node.append(svg("text", { x: frame.x(places[k]), y, "text-anchor": "middle" }, String(count))));
  });
  return node;
}

function sureness({ right, wrong }) {
  const host = el("div"), bins = right.length, totals = right.map((n, i) => n + wrong[i]);
  const first = Math.max(0, totals.findIndex((n) => n > 0)), shown = totals.map((_, i) => i).slice(first);
  const names = [["right", right, "var(--dims)"], ["wrong", wrong, "var(--set-2)"]];
  whenSized(host, (full) => {
    const width = Math.min(full, 560), picture = el("div");
    const frame = chart(picture, width, { height: 300, xRange: [first / bins, 1],
      yRange: [0, 1.05 * Math.max(1, ...totals)], xLabel: "confidence", yLabel: "rows",
      label: "right and wrong answers by confidence" });
    for (const i of shown) {
      const part = [i / bins, (i + 1) / bins], range = `confidence ${part.map(format).join(" to ")}`;
      addBar(frame, part, [0, wrong[i]], names[1][2], `${range}: ${wrong[i]} wrong`);
      addBar(frame, part, [wrong[i], totals[i]], names[0][2], `${range}: ${right[i]} right`);
    }
    const middles = shown.map((i) => (i + 0.5) / bins);
    host.replaceChildren(picture, countLines(width, frame,
      names.map(([name, counts]) => [name, middles, shown.map((i) => counts[i])])));
  });
  const keys = names.map(([name, , colour]) => {
    const entry = el("span", {}, name);
    entry.style.setProperty("--colour", colour);
    return entry;
  });
  return el("figure", {}, el("div", { class: "legend" }, ...keys), host);
}

// Colours are shares of the true class, so that a rare class shows as much as a frequent one.
function confusionTable({ labels, counts }) {
  const head = el("tr", {}, el("th", { scope: "col" }, "true class"),
    ...labels.map((label) => el("th", { scope: "col", class: "number" }, label)),
    el("th", { scope: "col", class: "number" }, "right"));
  const lines = counts.map((row, i) => {
    const all = row.reduce((sum, n) => sum + n, 0);
    const cells = row.map((n, k) => {
      const cell = el("td", { class: "number" }, String(n));
      const colour = i === k ? "var(--dims)" : "var(--set-2)";
      if (n) cell.style.background = `color-mix(in srgb, ${colour} ${10 + (45 * n) / all}%, transparent)`;
      return cell;
    });
    return el("tr", {}, el("th", { scope: "row" }, labels[i]), ...cells,
      el("td", { class: "number", title: `${row[i]} of ${all}` },
        all ? `${Math.round((100 * row[i]) / all)} %` : "–"));
  });
  return el("figure", {}, el("h3", {}, "Answer for each true class"),
    el("div", { class: "scroll whole", tabindex: 0, role: "region", "aria-label": "answers for each true class" },
      el("table", { class: "confusion" }, el("thead", {}, head), el("tbody", {}, ...lines))));
}

function classesSection(run) {
  return el("div", { class: "pair" }, sureness(run.classes),
    run.classes.counts ? confusionTable(run.classes) : null);
}

const classesNote = ({ classes }) => {
  const sum = (counts) => counts.reduce((all, n) => all + n, 0);
  const wrong = sum(classes.wrong), rows = wrong + sum(classes.right);
  return `Of ${rows} held-out rows, ${wrong} have a wrong answer. Bars count rows by the confidence of their answer; ` +
    "wrong ones should be rare on the right: at a confidence of 0.9, one in ten.";
};
