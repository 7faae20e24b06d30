"use strict";
// Trajectories: energies against time, and positions in parameter space.

const QUANTITIES = [["energy", "energy T + κL"], ["kinetic_energy", "kinetic energy T"], ["loss", "loss L"]];

function energySection(run) {
  const host = el("div"), paths = run.trajectories;
  let quantity = 0, log = true, width = 0;
  function draw() {
    if (!width) return;
    const [key, label] = QUANTITIES[quantity];
    const values = paths.flatMap((path) => path[key]);
    const frame = chart(host, width, {
      xRange: extent(paths.flatMap((path) => path.times)), yRange: extent(values, log), log,
      xLabel: "time t", yLabel: label, label: `${label} of ${paths.length} trajectories`,
    });
    for (const path of paths) {
      addLine(frame, path.times, path[key], path.method, { log, opacity: 0.8, title: path.label });
    }
  }
  whenSized(host, (w) => { width = w; draw(); });
  return el("div", {},
    el("div", { class: "controls" },
      choice("Show", QUANTITIES.map(([, label]) => label), (i) => { quantity = i; draw(); }),
      choice("scale", ["logarithmic", "linear"], (i) => { log = i === 0; draw(); })),
    legend(paths.map((path) => path.method)), host);
}

function planeSection(run) {
  const ground = run.landscape, paths = run.trajectories;
  const places = paths.map((path) => path.positions);
  const [xRange, yRange] = ground
    ? [ground.x, ground.y]
    : [0, 1].map((axis) => padded(extent(places.flatMap((path) => path.map((point) => point[axis])))));
  const shape = (yRange[1] - yRange[0]) / (xRange[1] - xRange[0]);
  const aspect = Math.min(Math.max(shape, 0.4), 1.5);
  const stack = el("div", { class: "stack" });
  if (ground) {
    const low = Math.min(...ground.loss.flat().filter((v) => v !== null));
    const bend = (value) => Math.log10(1e-2 + value - low);
    const bent = ground.loss.map((row) => row.map((v) => (v === null ? null : bend(v))));
    const [from, to] = extent(bent.flat());
    const parts = bent.map((row) => row.map((v) => (v === null ? null : (v - from) / (to - from))));
    stack.append(raster(parts, "loss", { bands: 14, aspect }));
  } else {
    stack.append(el("canvas", { width: 480, height: Math.round(480 * aspect) }));
  }
  const canvas = stack.firstChild, [w, h] = [canvas.width, canvas.height];
  const x = makeScale(xRange, [0, w]), y = makeScale(yRange, [h, 0]);
  const drawing = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img",
    "aria-label": `${paths.length} trajectories in the plane` });
  const dots = paths.map((path) => {
    for (const halo of [true, false]) {
      const line = svg("path", { d: linePath(path.positions.map((p) => p[0]),
        path.positions.map((p) => p[1]), x, y) }, svg("title", {}, path.label));
      line.style.stroke = halo ? "#fff" : colourOf(path.method);
      line.style.strokeWidth = halo ? 3 : 1.6;
      line.style.opacity = halo && ground ? 0.6 : halo ? 0 : 1;
      drawing.append(line);
    }
    const dot = svg("circle", { r: 6, stroke: "#fff", "stroke-width": 1.5 }, svg("title", {}, path.label));
    dot.style.fill = colourOf(path.method);
    return dot;
  });
  drawing.append(...dots);
  stack.append(drawing);

  const time = timeSlider(100, (part) => {
    paths.forEach((path, i) => {
      const point = path.positions[Math.round(part * (path.positions.length - 1))];
      dots[i].setAttribute("cx", x(point[0]));
      dots[i].setAttribute("cy", y(point[1]));
    });
    return `${Math.round(100 * part)} % of the saved times`;
  }, 100);
  const across = `horizontal: ${format(xRange[0])} to ${format(xRange[1])}; ` +
    `vertical: ${format(yRange[0])} to ${format(yRange[1])}`;
  return el("div", {}, time, legend(paths.map((path) => path.method)),
    el("figure", {}, stack, el("figcaption", { class: "note" }, across)));
}

// A slider with a play button; `move` gets the fraction of the range and returns the text beside it.
function timeSlider(steps, move, start = 0) {
  const text = el("output", { class: "note" });
  const slider = el("input", { type: "range", min: 0, max: steps, value: start, "aria-label": "time" });
  const update = () => { text.textContent = move(Number(slider.value) / steps); };
  slider.addEventListener("input", update);
  let timer = null;
  const play = el("button", { type: "button", onclick: () => {
    if (timer) { clearInterval(timer); timer = null; play.textContent = "Play"; return; }
    if (Number(slider.value) === steps) slider.value = 0;
    play.textContent = "Stop";
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      update();
      if (Number(slider.value) === steps) play.click();
    }, Math.max(40, 3000 / steps));
  } }, "Play");
  update();
  return el("div", { class: "controls" }, el("label", {}, "time", slider), play, text);
}
