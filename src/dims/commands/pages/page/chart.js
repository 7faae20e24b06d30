"use strict";
// Axes, lines and points in SVG.

function extent(values, log) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value === null || !Number.isFinite(value) || (log && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return log ? [1, 10] : [0, 1];
  if (low === high) return log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  return [low, high];
}

const padded = ([low, high]) => [low - 0.05 * (high - low), high + 0.05 * (high - low)];

function linearTicks(low, high, count = 5) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-12); i++) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

function logTicks(low, high) {
  const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
  const step = Math.max(1, Math.ceil((last - first) / 6)), ticks = [];
  for (let power = first; power <= last; power += step) ticks.push(10 ** power);
  if (last - first >= 2) return ticks;
  const finer = [first - 1, ...Array.from({ length: last - first + 1 }, (_, i) => first + i)]
    .flatMap((power) => [1, 2, 5].map((m) => Number(`${m}e${power}`)))
    .filter((tick) => tick >= low && tick <= high);
  return finer.length > 1 ? finer : linearTicks(low, high, 4).filter((tick) => tick > 0);
}

function crowded(place) {
  const [first, second] = place.ticks;
  const letters = Math.max(...place.ticks.map((tick) => tickText(tick).length));
  return second !== undefined && place(second) - place(first) < 7 * letters + 8;
}

function makeScale([low, high], [start, end], log = false) {
  const bend = log ? Math.log10 : (value) => value;
  const a = bend(low), b = bend(high);
  const place = (value) => start + ((end - start) * (bend(value) - a)) / (b - a);
  place.ticks = log ? logTicks(low, high) : linearTicks(low, high);
  // Ticks along the foot stand side by side: fewer of them where their numbers are long.
  for (let most = 4; end > start && !log && most > 1 && crowded(place); most--) {
    place.ticks = linearTicks(low, high, most);
  }
  return place;
}

function linePath(xs, ys, x, y, log) {
  let text = "", pen = "M";
  for (let i = 0; i < xs.length; i++) {
    if (ys[i] === null || xs[i] === null || (log && ys[i] <= 0)) { pen = "M"; continue; }
    text += `${pen}${x(xs[i]).toFixed(1)} ${y(ys[i]).toFixed(1)}`;
    pen = "L";
  }
  return text;
}

// Ticks keep all their digits, because those of 2019.2 and 2019.4 or of 1000010 tell them apart.
function tickText(tick) {
  const size = Math.abs(tick);
  return size === 0 || (size >= 1e-3 && size < 1e9) ? String(tick) : format(tick);
}

// A name of a column can be longer than its axis.
function axisName(name, pixels) {
  const most = Math.max(8, Math.floor(pixels / 6.6));
  return name.length <= most ? [name] : [`${name.slice(0, most - 1)}…`, svg("title", {}, name)];
}

// A frame with axes. `inside` clips its content and uses the pixels of the whole chart.
function chart(host, width, options) {
  const height = options.height ?? Math.min(360, Math.max(220, width * 0.55));
  const pad = { left: 58, right: 12, top: 10, bottom: 42 };
  const y = makeScale(options.yRange, [height - pad.bottom, pad.top], options.log);
  pad.left = Math.max(pad.left, 32 + 7 * Math.max(0, ...y.ticks.map((tick) => tickText(tick).length)));
  const x = makeScale(options.xRange, [pad.left, width - pad.right]);
  const node = svg("svg", { width, height, role: "img", "aria-label": options.label });
  for (const tick of y.ticks) {
    node.append(
      svg("line", { class: "rule", x1: pad.left, x2: width - pad.right, y1: y(tick), y2: y(tick) }),
      svg("text", { x: pad.left - 6, y: y(tick) + 4, "text-anchor": "end" }, tickText(tick)));
  }
  for (const tick of x.ticks) {
    node.append(svg("text",
      { x: x(tick), y: height - pad.bottom + 16, "text-anchor": "middle" }, tickText(tick)));
  }
  const foot = height - pad.bottom;
  node.append(
    svg("line", { class: "axis", x1: pad.left, x2: width - pad.right, y1: foot, y2: foot }),
    svg("text", { x: (pad.left + width) / 2, y: height - 6, "text-anchor": "middle" },
      ...axisName(options.xLabel, width - pad.left)),
    svg("text", {
      x: 12, y: foot / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${foot / 2})`,
    }, ...axisName(options.yLabel, foot)));
  const box = [pad.left, pad.top, width - pad.left - pad.right, foot - pad.top];
  const inside = svg("svg", {
    x: box[0], y: box[1], width: box[2], height: box[3], viewBox: box.join(" "), overflow: "hidden",
  });
  node.append(inside);
  host.replaceChildren(node);
  return { x, y, inside };
}

function addLine(frame, xs, ys, name, { log = false, opacity = 1, width = 1.5, title = name, dashed = false } = {}) {
  const path = svg("path", { d: linePath(xs, ys, frame.x, frame.y, log) }, svg("title", {}, title));
  if (dashed) path.style.strokeDasharray = "7 5";
  path.style.stroke = colourOf(name);
  path.style.opacity = opacity;
  path.style.strokeWidth = width;
  frame.inside.append(path);
  return path;
}

function addPoints(frame, pairs, kind, radius = 3) {
  for (const [x, y] of pairs) {
    frame.inside.append(svg("circle", { class: kind, cx: frame.x(x), cy: frame.y(y), r: radius }));
  }
}
