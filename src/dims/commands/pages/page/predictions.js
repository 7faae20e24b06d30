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
    xLabel: "input x", yLabel: "output f(x)", label,
  });
  return frame;
}

function dataPoints(frame, run) {
  addPoints(frame, run.points.gap ?? [], "hollow", 2.5);
  addPoints(frame, run.points.train ?? [], "point", 2.5);
}

function functionsSection(run) {
  return el("div", { class: "grid" }, ...run.functions.map((row) => {
    const host = el("div");
    whenSized(host, (width) => {
      const frame = functionFrame(host, width, run, run.grid, `functions of ${row.method}`);
      const bound = (sign) => row.mean.map((m, i) => m + 2 * sign * row.std[i]);
      if (row.curves.length > 1) {
        const there = linePath(run.grid, bound(1), frame.x, frame.y);
        const back = linePath([...run.grid].reverse(), bound(-1).reverse(), frame.x, frame.y);
        const band = svg("path", { d: `${there}${back.replace("M", "L")}Z` });
        band.style.fill = colourOf(row.method);
        band.style.opacity = 0.18;
        frame.inside.append(band);
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

function calibrationSection(run) {
  const host = el("div");
  whenSized(host, (width) => {
    const frame = chart(host, Math.min(width, 560), { height: 380, xRange: [0, 1], yRange: [0, 1],
      xLabel: "confidence", yLabel: "accuracy", label: "reliability diagram" });
    addLine(frame, [0, 1], [0, 1], "perfect", { opacity: 0.7 });
    for (const row of run.calibration) {
      addLine(frame, row.confidence, row.accuracy, row.method, { width: 2 });
      row.confidence.forEach((c, i) => {
        if (c === null) return;
        const dot = svg("circle", { cx: frame.x(c), cy: frame.y(row.accuracy[i]), r: 3.5 },
          svg("title", {}, `${row.method}: ${format(row.inputs[i])} points`));
        dot.style.fill = colourOf(row.method);
        frame.inside.append(dot);
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
