"use strict";
// Colour maps, perceptually uniform and readable without colour vision.

const STOPS = {
  loss: ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"],
  uncertainty: ["#000004", "#3b0f70", "#8c2981", "#de4968", "#fe9f6d", "#fcfdbf"],
};

function colourMap(name) {
  const stops = STOPS[name].map((text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)));
  return (part) => {
    const place = Math.min(Math.max(part, 0), 1) * (stops.length - 1);
    const i = Math.min(Math.floor(place), stops.length - 2), rest = place - i;
    return stops[i].map((low, k) => Math.round(low + rest * (stops[i + 1][k] - low)));
  };
}

// Bilinear interpolation between the rows; null where a neighbour is null.
function between(rows, across, up) {
  const j = Math.min(Math.floor(up), rows.length - 2), i = Math.min(Math.floor(across), rows[0].length - 2);
  const corners = [rows[j][i], rows[j][i + 1], rows[j + 1][i], rows[j + 1][i + 1]];
  if (corners.includes(null)) return null;
  const s = across - i, t = up - j;
  return (1 - t) * ((1 - s) * corners[0] + s * corners[1]) + t * ((1 - s) * corners[2] + s * corners[3]);
}

// Rows run from bottom to top and hold fractions of the colour range; bands draw contours.
function raster(rows, map, { aspect = 1, bands = 0 } = {}) {
  const width = 480, height = Math.round(width * aspect), colour = colourMap(map);
  const canvas = el("canvas", { width, height });
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  for (let j = 0; j < height; j++) {
    const up = ((height - 1 - j) / (height - 1)) * (rows.length - 1);
    for (let i = 0; i < width; i++) {
      let part = between(rows, (i / (width - 1)) * (rows[0].length - 1), up);
      if (part === null) continue;
      if (bands) part = Math.min(Math.floor(part * bands), bands - 1) / (bands - 1);
      image.data.set([...colour(part), 255], 4 * (j * width + i));
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
