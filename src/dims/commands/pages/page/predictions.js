"use strict";
// Predictions of the draws: functions, functions over time, maps and calibration.

function heightRange(run) {
  const heights = Object.values(run.points).flat().map((pair) => pair[1]);
  const [low, high] = extent(heights), margin = 0.5 * (high - low);
  return [low - margin, high + margin];
}

function functionFrame(host, width, run, grid, label) {
  const frame = chart(host, width, {
    xRange: [grid[0], grid[grid.length - 1]], yRange: heightRange(run),
    xLabel: run.function_axes?.[0] ?? "input x", yLabel: run.function_axes?.[1] ?? "output f(x)", label,
  });
  return frame;
}

function dataPoints(frame, run) {
  addPoints(frame, run.points.gap ?? [], "hollow", 2.5);
  addPoints(frame, run.points.train ?? [], "point", 2.5);
}

function addBand(frame, grid, mean, std, name, opacity) {
  const bound = (sign) => mean.map((m, i) => m + 2 * sign * std[i]);
  const there = linePath(grid, bound(1), frame.x, frame.y);
  const back = linePath([...grid].reverse(), bound(-1).reverse(), frame.x, frame.y);
  const band = svg("path", { d: `${there}${back.replace("M", "L")}Z` });
  band.style.fill = colourOf(name);
  band.style.opacity = opacity;
  band.style.stroke = "none";
  frame.inside.append(band);
}

function functionsSection(run) {
  return el("div", { class: run.functions.length > 1 ? "grid" : "wide" }, ...run.functions.map((row) => {
    const host = el("div");
    whenSized(host, (width) => {
      const frame = functionFrame(host, width, run, run.grid, `functions of ${row.method}`);
      if (row.curves.length > 1) {
        addBand(frame, run.grid, row.mean, row.std, row.method, 0.18);
        if (row.inner) addBand(frame, run.grid, row.mean, row.inner, row.method, 0.25);
        for (const curve of row.curves) addLine(frame, run.grid, curve, row.method, { opacity: 0.3, width: 0.8 });
      }
      addLine(frame, run.grid, row.mean, row.method, { width: 2.2 });
      dataPoints(frame, run);
    });
    return el("figure", {}, el("h3", {}, row.method), host);
  }));
}

function movieSection(run) {
  const host = el("div", { class: "movie" });
  let film = run.movies.length - 1, frame = null, lines = [], step = 0;
  function setUp(width) {
    const movie = run.movies[film];
    frame = functionFrame(host, width, run, run.movie_grid, `functions of ${movie.method} over time`);
    lines = movie.curves[0].map(() =>
      addLine(frame, [], [], movie.method, { opacity: 0.8, title: movie.method }));
    dataPoints(frame, run);
    show();
  }
  function show() {
    const movie = run.movies[film];
    step = Math.min(step, movie.times.length - 1);
    lines.forEach((line, i) =>
      line.setAttribute("d", linePath(run.movie_grid, movie.curves[step][i], frame.x, frame.y)));
    return `${movie.method}: t = ${format(movie.times[step])}`;
  }
  const steps = Math.max(...run.movies.map((movie) => movie.times.length)) - 1;
  const time = timeSlider(steps, (part) => {
    step = Math.round(part * steps);
    return frame ? show() : "";
  });
  const slider = time.querySelector("input");
  const names = run.movies.map((movie) => movie.method);
  whenSized(host, (width) => { setUp(width); slider.dispatchEvent(new Event("input")); });
  return el("div", {}, el("div", { class: "controls" }, choice("Method", names, (i) => {
    film = i;
    setUp(host.clientWidth);
    slider.dispatchEvent(new Event("input"));
  }, film)), time, host);
}

const MAPS = [
  ["variance of the predicted class, p̄(1 − p̄)", (row) => row.probability.map((p) => 4 * p * (1 - p))],
  ["disagreement: variance of p over the draws", (row) => row.variance.map((v) => 4 * v)],
  ["probability p̄ of the second class", (row) => row.probability],
];

function mapSection(run) {
  const host = el("div", { class: "grid" }), { side, x, y } = run.map;
  function draw(kind) {
    host.replaceChildren(...run.maps.map((row) => {
      const values = MAPS[kind][1](row.map);
      const rows = Array.from({ length: side }, (_, j) => values.slice(j * side, (j + 1) * side));
      const picture = raster(rows, "uncertainty");
      const across = makeScale(x, [0, picture.width]), up = makeScale(y, [picture.height, 0]);
      const drawing = svg("svg", { viewBox: `0 0 ${picture.width} ${picture.height}`, role: "img",
        "aria-label": `${MAPS[kind][0]} of ${row.method}` });
      for (const [px, py, label] of run.map_points) {
        drawing.append(svg("circle", { cx: across(px), cy: up(py), r: 3.5, stroke: "#000",
          "stroke-width": 0.6, fill: label ? "#E69F00" : "#56B4E9" }));
      }
      return el("figure", {}, el("h3", {}, row.method), el("div", { class: "stack" }, picture, drawing));
    }));
  }
  draw(0);
  return el("div", {}, el("div", { class: "controls" },
    choice("Show", MAPS.map(([label]) => label), draw)), host);
}

// Wilson's 95 % interval of a share of so many points; unlike standard errors it is honest at 0 and 1.
function wilson(share, points) {
  const z2 = 1.96 ** 2 / points, middle = (share + z2 / 2) / (1 + z2);
  const half = (Math.sqrt(z2 * share * (1 - share) + z2 * z2 / 4)) / (1 + z2);
  return [middle - half, middle + half];
}

function addShare(frame, method, x, share, points, most) {
  const bar = svg("path", { d: linePath([x, x], wilson(share, points), frame.x, frame.y) });
  const dot = svg("circle", { cx: frame.x(x), cy: frame.y(share), r: 2 + 3 * Math.sqrt(points / most) },
    svg("title", {}, `${method}: ${format(points)} points`));
  bar.style.stroke = dot.style.fill = colourOf(method);
  bar.style.opacity = 0.5;
  frame.inside.append(bar, dot);
}

function calibrationSection(run) {
  const host = el("div"), [xLabel, yLabel] = run.calibration_axes ?? ["confidence", "accuracy"];
  whenSized(host, (width) => {
    const frame = chart(host, Math.min(width, 560), { height: 380, xRange: [0, 1], yRange: [0, 1],
      xLabel, yLabel, label: `${yLabel} against ${xLabel}` });
    const most = Math.max(...run.calibration.flatMap((row) => row.inputs));
    addLine(frame, [0, 1], [0, 1], "perfect", { opacity: 0.7 });
    for (const row of run.calibration) {
      addLine(frame, row.confidence, row.accuracy, row.method, { width: 2, dashed: row.dashed });
      row.confidence.forEach((c, i) => {
        if (c !== null) addShare(frame, row.method, c, row.accuracy[i], row.inputs[i], most);
      });
    }
  });
  return el("div", {}, legend(run.calibration.map((row) => row.method)), host);
}

function placesSection(run) {
  const host = el("div");
  whenSized(host, (width) => {
    const axis = (i) => padded(extent([0, ...run.places.map((place) => place[i])]));
    const frame = chart(host, Math.min(width, 640), { height: 400, xRange: axis(0), yRange: axis(1),
      xLabel: "first principal direction", yLabel: "second", label: "draws in parameter space" });
    run.places.forEach(([x, y], i) => {
      const dot = svg("circle", { cx: frame.x(x), cy: frame.y(y), r: 4 }, svg("title", {}, `draw ${i}`));
      dot.style.fill = colourOf(run.method);
      dot.style.opacity = 0.75;
      frame.inside.append(dot);
    });
    addPoints(frame, [[0, 0]], "point", 6);
  });
  return host;
}
