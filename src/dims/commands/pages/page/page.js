"use strict";
// Builds the page from its data: one section for each part that the data contain.

const page = JSON.parse(document.getElementById("data").textContent);

const pairTable = (pairs, whole = false) => el("div", { class: whole ? "scroll whole" : "scroll" }, el("table", {}, el("tbody", {},
  ...pairs.map(([key, value]) => el("tr", {}, el("th", { scope: "row" }, key),
    el("td", { class: "long" }, format(value)))))));

const PARTICLES = "Each line is a particle that starts at the trained weights θ* (red dot) with a random velocity. ";

const planeNote = (run) => PARTICLES + (!run.landscape
  ? "The first picture has two of its parameters. "
  : run.plane_share ? "The first picture is the plane through θ* along which the particles vary most; it holds " +
    `${Math.round(100 * run.plane_share)} % of their variation. Its colours are the loss on the plane ` +
    "(dark is low), not that of the particles, which leave it. "
  : "The colours of the first picture are the loss (dark is low). ") +
  "The second picture is the loss of each particle. It may climb while it is fast; friction takes its energy, " +
  "and it comes to rest low.";

const RUN_SECTIONS = [
  ["functions", "Functions", (run) => run.functions, functionsSection, (run) => run.functions_note ??
    "Thin lines: single draws. Thick line: their mean. Band: two standard deviations. " +
      "Filled dots: training data. Hollow dots: held-out data."],
  ["calibration", "Calibration", (run) => run.calibration, calibrationSection, (run) => run.calibration_note ??
    "Accuracy of the ensemble predictive on test points in ten confidence bins, with 95 % intervals. The diagonal is perfect."],
  ["residuals", "Residuals", (run) => !run.classes && run.residuals, residualsSection, residualsNote],
  ["classes", "Right and wrong answers", (run) => run.classes?.right, classesSection, classesNote],
  ["pictures", "Images on which the draws disagree most", (run) => run.pictures, picturesSection,
    (run) => run.picture_classes
      ? "The answer of the average, whether it is right, and the mutual information of answer and draw."
      : "The mean of the draws, the target, and the standard deviation of their means."],
  ["weights", "What counts in the answer", (run) => run.weights && Object.keys(run.weights), weightsSection,
    (run) => run.weights_note],
  ["evidence", "Prior and noise", (run) => run.evidence, evidenceSection, (run) => run.evidence_note],
  ["energies", "Energy and loss against time", (run) => run.trajectories, energySection,
    () => "Friction only removes energy. A geodesic keeps its kinetic energy."],
  ["paths", "Trajectories in parameter space", (run) => run.trajectories, planeSection, planeNote],
  ["places", "Draws in parameter space", (run) => run.places, placesSection,
    (run) => `The two principal directions around θ* (large dot): ${run.places_note}`],
  ["movie", "Functions over time", (run) => run.movies, movieSection,
    () => "Move the slider, or use the arrow keys on it."],
  ["maps", "Uncertainty maps", (run) => run.maps, mapSection, () => "Bright is uncertain."],
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

const MOST_NOTES = 30; // that stand on the page at full length; more are scrolled

const list = (lines) => el("ul", {}, ...lines.map((line) => el("li", {}, line)));

// What a run predicts and why comes before its tables; the rest follows them.
const ANSWERS = ["functions", "calibration", "residuals", "classes", "pictures", "weights", "evidence"];

function runSections(run, wanted = () => true) {
  return RUN_SECTIONS.filter(([id, , has]) => wanted(id) && has(run)?.length)
    .map(([id, title, , build, note]) => section(id, title, note(run), build(run)));
}

function start() {
  const main = document.getElementById("main"), menu = document.getElementById("menu");
  const answers = el("div"), runs = el("div");
  const link = (part) => el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent);
  function show(i) {
    const first = (id) => page.answers_first && ANSWERS.includes(id);
    answers.replaceChildren(...runSections(page.runs[i], first));
    runs.replaceChildren(...runSections(page.runs[i], (id) => !first(id)));
    menu.replaceChildren(...[...main.querySelectorAll("section")].map(link));
    drawSized();
  }
  if (page.verdict?.length) {
    main.append(section("verdict", "Verdict", page.verdict_note,
      el("div", {}, ...page.verdict.map((line) => el("p", {}, line)))));
  }
  main.append(section("overview", "Overview", page.subtitle, pairTable(page.facts, true)));
  if (page.advice.length) {
    main.append(section("advice", "Advice", "", list(page.advice)));
  }
  if (page.table_notes?.length) {
    const many = page.table_notes.length > MOST_NOTES;
    main.append(section("notes", "Notes on the table", "What was found in the file, and what was done about it.",
      el("div", many ? { class: "scroll", tabindex: 0, role: "region", "aria-label": "Notes on the table" } : {},
        list(page.table_notes))));
  }
  main.append(answers);
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
