"use strict";
// Images on which the draws disagree most, each with what they answer.

function pictureCaption([, row, amount, answer, , target], classes) {
  const lines = [
    el("strong", {}, classes ? String(answer) : format(answer)),
    el("span", { class: classes && answer !== target ? "wrong" : null },
      classes ? (answer === target ? "right" : `is ${target}`) : `target ${format(target)}`),
    el("span", { class: "note" }, `row ${row}, ${format(amount)}${classes ? " nats" : ""}`),
  ];
  return el("figcaption", {}, ...lines);
}

function picturesSection({ pictures, picture_classes: classes }) {
  return el("div", { class: "pictures" }, ...pictures.map((entry) => el("figure", {},
    el("img", { src: `data:image/png;base64,${entry[0]}`, alt: `input of row ${entry[1]}` }),
    pictureCaption(entry, classes))));
}
