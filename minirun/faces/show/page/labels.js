// Names of arrows: beside their own arrow, and at no other. The same rules as in minirun/faces/show/figures/labels.py.

const NEAR = 5, ROWS = Math.floor(GUTTER / ROW);

function layMessages(view) {
  const arrows = items.filter((item) => item.recording === view.number && item.shaft && item.shown);
  const named = arrows.filter((item) => item.label), holes = new Map(arrows.map((item) => [item, []]));
  const placed = [];
  named.sort((a, b) => (b.event.weight === "bold") - (a.event.weight === "bold"));
  named.forEach((item) => {
    const free = around(item).filter((label) => isFree(label, arrows) && !placed.some((other) => touch(label, other)));
    const best = free.sort((a, b) => crossed(a, arrows).length - crossed(b, arrows).length)[0];
    item.label.classList.toggle("away", !best);
    if (!best) return;
    placed.push(best);
    crossed(best, arrows).forEach((other) => holes.get(other).push(baseline(best)));
    item.label.setAttribute("x", best.follows ? NEAR : -NEAR);
    item.label.setAttribute("y", baseline(best) - item.top);
    item.label.setAttribute("text-anchor", best.follows ? "start" : "end");
  });
  arrows.forEach((item) => item.shaft.setAttribute("d", shaft(item, holes.get(item).sort((a, b) => a - b))));
}

/** The places beside an arrow that are in the picture; those on the right come first. */
function around(item) {
  item.wide ||= item.label.getComputedTextLength();
  const wide = item.wide + NEAR, rows = [...Array(item.upper === 0 ? ROWS : 1).keys()];
  const tops = views[item.recording].tops, common = { item, lane: item.upper, top: tops[item.upper] + BAND };
  return [...rows.map((row) => ({ ...common, row, left: item.x, right: item.x + wide, follows: true })),
          ...rows.map((row) => ({ ...common, row, left: item.x - wide, right: item.x, follows: false }))]
    .filter((label) => label.left >= LEFT - 12 && label.right <= width - 2);
}

const baseline = (label) => label.top + (label.lane ? 12 : 20) + label.row * ROW;  // below the heads of arrows
const passes = (item, label) => item !== label.item && item.upper <= label.lane && label.lane < item.lower;

/** No other arrow with a name runs through a place, or ends it closely; nor, except in the first lane, is a head there. */
function isFree(label, arrows) {
  const left = label.follows ? label.left : label.left - NEAR, right = label.follows ? label.right + NEAR : label.right;
  const stops = (item) => item.label || (label.lane > 0 && item.upper === label.lane && item.lane === item.lower);
  return !arrows.some((item) => passes(item, label) && left <= item.x && item.x <= right && stops(item));
}

const touch = (one, other) => one.lane === other.lane && one.row === other.row &&
  one.left < other.right + NEAR && other.left < one.right + NEAR;

const crossed = (label, arrows) =>
  arrows.filter((item) => passes(item, label) && label.left - 1 <= item.x && item.x <= label.right + 1);

/** The line of an arrow, interrupted where the names of others stand. */
function shaft(item, baselines) {
  const [upper, lower] = item.ends;
  const from = [upper, ...baselines.map((y) => y + 4 - item.top)], to = [...baselines.map((y) => y - 11 - item.top), lower];
  return from.map((y, n) => to[n] > y ? `M0 ${y}V${to[n]}` : "").join("") || `M0 ${upper}V${lower}`;
}
