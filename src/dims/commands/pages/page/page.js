"use strict";
// Builds the page from its data: one section for each part that the data contain.

const page = JSON.parse(document.getElementById("data").textContent);

const pairTable = (pairs) => el("div", { class: "scroll" }, el("table", {}, el("tbody", {},
  ...pairs.map(([key, value]) => el("tr", {}, el("th", { scope: "row" }, key),
    el("td", { class: "long" }, format(value)))))));

const planeNote = (run) => !run.landscape ? "The first two parameters."
  : run.plane_share ? "The plane through θ* along which the trajectories vary most: it holds " +
    `${Math.round(100 * run.plane_share)} % of their variation. Contours show the loss on the plane ` +
    "(dark is low). The trajectories leave the plane, so the loss along them differs."
  : "Contours show the loss (dark is low).";

const RUN_SECTIONS = [
  ["energies", "Energy and loss against time", (run) => run.trajectories, energySection,
    () => "Friction only removes energy. A geodesic keeps its kinetic energy."],
  ["paths", "Trajectories in parameter space", (run) => run.trajectories, planeSection, planeNote],
  ["places", "Draws in parameter space", (run) => run.places, placesSection,
    (run) => `The two principal directions around θ* (large dot): ${run.places_note}`],
  ["functions", "Functions", (run) => run.functions, functionsSection,
    () => "Thin lines: single draws. Thick line: their mean. Band: two standard deviations. " +
      "Filled dots: training data. Hollow dots: held-out data."],
  ["movie", "Functions over time", (run) => run.movies, movieSection,
    () => "Move the slider, or use the arrow keys on it."],
  ["maps", "Uncertainty maps", (run) => run.maps, mapSection, () => "Bright is uncertain."],
  ["calibration", "Calibration", (run) => run.calibration, calibrationSection,
    () => "Accuracy of the ensemble predictive on test points in ten confidence bins. The diagonal is perfect."],
  ["confidence", "Confidence on in-distribution and OOD data", (run) => run.confidence,
    confidenceSection, () => "Share of each data set per confidence bin of the ensemble predictive. " +
      "OOD data should have lower confidence than in-distribution data."],
  ["settings", "Settings", (run) => run.settings, (run) => pairTable(run.settings), () => ""],
  ["versions", "Versions", (run) => run.versions, (run) => pairTable(run.versions), () => ""],
];

function section(id, title, note, content) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title),
    note ? el("p", { class: "note" }, note) : null, content);
}

function runSections(run) {
  return RUN_SECTIONS.filter(([, , has]) => has(run)?.length)
    .map(([id, title, , build, note]) => section(id, title, note(run), build(run)));
}

function start() {
  const main = document.getElementById("main"), runs = el("div"), menu = document.getElementById("menu");
  const link = (part) => el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent);
  function show(i) {
    runs.replaceChildren(...runSections(page.runs[i]));
    menu.replaceChildren(...[...main.querySelectorAll("section")].map(link));
    drawSized();
  }
  main.append(section("overview", "Overview", page.subtitle, pairTable(page.facts)));
  if (page.advice.length) {
    main.append(section("advice", "Advice", "", el("ul", {}, ...page.advice.map((line) => el("li", {}, line)))));
  }
  for (const table of page.tables) main.append(section(table.id, table.title, table.note, dataTable(table)));
  if (page.runs.length > 1) {
    const names = page.runs.map((run) => run.name);
    main.append(el("div", { class: "controls" }, choice("Run shown below", names, show)));
  }
  main.append(runs, section("cite", "How to cite", "", el("pre", {}, page.citation)));
  show(0);
  document.getElementById("theme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  });
}

start();
