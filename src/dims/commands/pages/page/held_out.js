"use strict";
// Held-out rows, the evidence of the prior, and what counts in the answer.

// Files of an earlier version have one dot for each row of classes too; later ones count (classes.js).
function residualsSection(run) {
  return el("div", { class: run.residuals.length > 1 ? "grid" : "wide" }, ...run.residuals.map((part) => {
    const host = el("div"), classes = run.within_two === undefined;
    whenSized(host, (width) => {
      const high = Math.max(3, ...part.y.filter((v) => v !== null).map(Math.abs)) * 1.08;
      const frame = chart(host, Math.min(width, 560), {
        height: 320, xRange: padded(extent(part.x)), yRange: classes ? [-0.04, 1.04] : [-high, high],
        xLabel: classes ? "confidence" : part.axis ?? "predicted mean",
        yLabel: classes ? "1 − p of the true class" : "residual / standard deviation",
        label: `residuals of ${part.x.length} held-out rows`,
      });
      for (const level of classes ? [0.5] : [-2, 0, 2]) {
        addLine(frame, extent(part.x), [level, level], "guide", { width: 1, opacity: level ? 0.7 : 1 });
      }
      part.x.forEach((x, i) => {
        if (x === null || part.y[i] === null) return;
        const dot = svg("circle", { cx: frame.x(x), cy: frame.y(part.y[i]), r: 3 },
          svg("title", {}, `row ${i}`));
        dot.style.fill = colourOf(run.method);
        dot.style.opacity = 0.6;
        frame.inside.append(dot);
      });
    });
    return el("figure", {}, part.name ? el("h3", {}, part.name) : null, host);
  }));
}

const residualsNote = (run) => run.within_two === undefined
  ? "One dot per held-out row. High dots on the right are confident and wrong."
  : `One dot per held-out row. ${format(Math.round(1000 * run.within_two) / 10)} % of them are within two ` +
    "standard deviations (lines); about 95 % should be, without a trend from left to right.";

function evidenceSection(run) {
  const host = el("div"), points = run.evidence.filter((p) => p.log_evidence !== null);
  const xs = points.map((p) => Math.log10(p.prior_precision)), all = points.map((p) => p.log_evidence);
  // Far worse candidates lie on the lower edge, so that the others can be told from each other.
  const best = Math.max(...all), low = Math.max(Math.min(...all), best - 200), ys = all.map((y) => Math.max(y, low));
  whenSized(host, (width) => {
    const frame = chart(host, Math.min(width, 640), { height: 300, xRange: padded(extent(xs)),
      yRange: padded(extent([low, best])), xLabel: "log₁₀ of the prior precision",
      yLabel: "log evidence [nats]", label: "log evidence against the prior precision" });
    addLine(frame, xs, ys, run.method, { width: 1.5 });
    points.forEach((point, i) => {
      const noise = point.noise_std === undefined ? "" : `, noise ${format(point.noise_std)}`;
      const dot = svg("circle", { cx: frame.x(xs[i]), cy: frame.y(ys[i]), r: point.chosen ? 7 : 3.5 },
        svg("title", {}, `prior precision ${format(point.prior_precision)}${noise}, log evidence ${format(all[i])}`));
      dot.style.fill = point.chosen ? "var(--data)" : colourOf(run.method);
      frame.inside.append(dot);
    });
  });
  return host;
}

function weightsSection(run) {
  const host = el("div"), names = Object.keys(run.weights), line = 26;
  const most = Math.max(...Object.values(run.weights));
  whenSized(host, (width) => {
    const longest = Math.max(...names.map((name) => name.length)), left = Math.min(130, Math.max(84, 14 + 7 * longest));
    const span = Math.min(width, 560) - left - 52, height = line * names.length + 4;
    const node = svg("svg", { width, height, role: "img", "aria-label": "weights in the answer" });
    names.forEach((name, i) => {
      const weight = run.weights[name], length = (span * weight) / most, y = line * i + 4;
      const bar = svg("rect", { x: left, y, width: Math.max(1, length), height: line - 8, rx: 3 });
      bar.style.fill = name === "network" ? "var(--map)" : colourOf(run.method);
      node.append(bar, svg("text", { x: left - 8, y: y + 14, "text-anchor": "end" }, ...axisName(name, left - 14)),
        svg("text", { x: left + length + 6, y: y + 14 }, weight.toFixed(2)));
    });
    host.replaceChildren(node);
  });
  return host;
}
