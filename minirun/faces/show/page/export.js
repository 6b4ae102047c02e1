// The view as a file: the pictures of all recordings at the present zoom, with their styles inside.

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linejoin",
  "paint-order", "font-family", "font-size", "font-weight", "text-anchor", "opacity", "display"];

/** A copy of an SVG element that looks the same without this page's style sheet. */
function styled(svg) {
  const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, n) => {
    const style = getComputedStyle(element);
    for (const name of KEPT) to[n].setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "aria-selected", "role", "id"]) to[n].removeAttribute(name);
  });
  return copy;
}

/** All pictures below one another, under the axis, on the page's paper. */
function picture() {
  const rows = [axis, ...views.map((view) => view.svg)];
  const heights = rows.map((row) => Number(row.getAttribute("height")) + 8);
  const height = heights.reduce((sum, one) => sum + one, 0);
  const whole = shape("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` });
  const page = getComputedStyle(document.body);
  whole.append(shape("rect", { width, height, fill: page.backgroundColor }));
  let top = 0;
  rows.forEach((row, n) => {
    const group = shape("g", { transform: `translate(0 ${top})` });
    group.append(...styled(row).childNodes);
    if (n) data.recordings[n - 1].lanes.forEach((actor, lane) => group.append(shape("text",
      { x: 4, y: views[n - 1].tops[lane] + BAND / 2 + 4, fill: page.color, "font-family": "system-ui, sans-serif",
        "font-size": 12, "font-weight": 600 }, actor)));
    whole.append(group);
    top += heights[n];
  });
  return new XMLSerializer().serializeToString(whole);
}

function save(blob, kind) {
  const link = make("a", { href: URL.createObjectURL(blob), download: `${data.recordings[0].id}.${kind}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const WIDEST = 16000;  // what a canvas takes

function savePng() {
  const image = new Image();
  image.onload = () => {
    const scale = Math.min(2, WIDEST / image.width);
    const canvas = make("canvas", { width: image.width * scale, height: image.height * scale });
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.drawImage(image, 0, 0);
    canvas.toBlob((blob) => save(blob, "png"), "image/png");
  };
  image.src = `data:image/svg+xml,${encodeURIComponent(picture())}`;
}

function bindExport() {
  byId("save-svg").addEventListener("click", () => save(new Blob([picture()], { type: "image/svg+xml" }), "svg"));
  byId("save-png").addEventListener("click", savePng);
}
