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

// The loss on the plane as a picture, in bands of its logarithm.
function groundPicture(ground, aspect) {
  const low = Math.min(...ground.loss.flat().filter((v) => v !== null));
  const bent = ground.loss.map((row) => row.map((v) => (v === null ? null : Math.log10(1e-2 + v - low))));
  const [from, to] = extent(bent.flat());
  const parts = bent.map((row) => row.map((v) => (v === null ? null : (v - from) / (to - from))));
  return raster(parts, "loss", { bands: 14, aspect }).toDataURL();
}

function moved(path, i) {
  return [path.positions[i], path.times[i], path.loss[i]];
}

function particle(path) {
  const dot = svg("circle", { r: 6, stroke: "#fff", "stroke-width": 1.5 }, svg("title", {}, path.label));
  dot.style.fill = colourOf(path.method);
  return dot;
}

// The plane on the left, the loss along each path on the right, one slider for both.
function planeSection(run) {
  const ground = run.landscape, paths = run.trajectories;
  const [xRange, yRange] = ground ? [ground.x, ground.y] : [0, 1].map((axis) =>
    padded(extent(paths.flatMap((path) => path.positions.map((point) => point[axis])))));
  const shape = (yRange[1] - yRange[0]) / (xRange[1] - xRange[0]);
  const aspect = Math.min(Math.max(shape, 0.4), 1.5);
  const picture = ground ? groundPicture(ground, aspect) : null;
  const names = run.plane_share ? ["along the first direction", "along the second direction"]
    : ["first parameter", "second parameter"];
  const left = el("div"), right = el("div"), views = { left: null, right: null };
  let part = 1;

  function drawPlane(width) {
    const height = Math.round((width - 70) * aspect) + 52;
    const frame = chart(left, width, { height, xRange, yRange, xLabel: names[0], yLabel: names[1],
      label: `${paths.length} trajectories in the plane` });
    if (picture) {
      const [x, y] = [frame.x(xRange[0]), frame.y(yRange[1])];
      frame.inside.append(svg("image", { href: picture, x, y, preserveAspectRatio: "none",
        width: frame.x(xRange[1]) - x, height: frame.y(yRange[0]) - y }));
    }
    for (const path of paths) {
      for (const halo of ground ? [true, false] : [false]) {
        const line = addLine(frame, path.positions.map((p) => p[0]), path.positions.map((p) => p[1]),
          path.method, { width: halo ? 3 : 1.6, opacity: halo ? 0.6 : 1, title: path.label });
        if (halo) line.style.stroke = "#fff";
      }
    }
    views.left = { frame, dots: paths.map(particle) };
    frame.inside.append(...views.left.dots);
    addPoints(frame, [paths[0].positions[0]], "point", 4); // θ*
    place();
  }

  function drawLoss(width) {
    const losses = paths.flatMap((path) => path.loss), log = losses.every((v) => v === null || v > 0);
    const frame = chart(right, width, { height: 300, xRange: padded(extent(paths.flatMap((path) => path.times))),
      yRange: log ? extent(losses, true) : padded(extent(losses)), log, xLabel: "time t", yLabel: "loss L",
      label: "loss along each trajectory" });
    for (const path of paths) {
      addLine(frame, path.times, path.loss, path.method, { log, opacity: 0.8, title: path.label });
    }
    views.right = { frame, dots: paths.map(particle) };
    frame.inside.append(...views.right.dots);
    place();
  }

  function place() {
    paths.forEach((path, k) => {
      const [point, time, loss] = moved(path, Math.round(part * (path.positions.length - 1)));
      for (const [view, x, y] of [[views.left, ...point], [views.right, time, loss]]) {
        if (!view) continue;
        view.dots[k].setAttribute("cx", view.frame.x(x));
        view.dots[k].setAttribute("cy", view.frame.y(y));
      }
    });
  }

  const time = timeSlider(100, (fraction) => {
    part = fraction;
    place();
    return `${Math.round(100 * part)} % of the saved times`;
  }, 100);
  whenSized(left, drawPlane);
  whenSized(right, drawLoss);
  return el("div", {}, time, legend(paths.map((path) => path.method)), el("div", { class: "pair" },
    el("figure", {}, el("h3", {}, "Seen from above"), left),
    el("figure", {}, el("h3", {}, "Loss along each trajectory"), right)));
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
