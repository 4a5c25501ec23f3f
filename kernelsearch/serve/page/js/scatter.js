// Points in a plane with names that do not overlap.

import { PICTURE_WIDTH as WIDTH, drawing, svg } from "./dom.js";
import { shortened } from "./format.js";

const HEIGHT = Math.round(220 + 0.3 * WIDTH);
const EDGE = { left: 30, right: 16, top: 14, bottom: 34 };

/** Scales that fit all [x, y] places into the drawing. */
export function fitted(places) {
  const range = (axis) => {
    const values = places.map((place) => place[axis]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const margin = (high - low || 1) * 0.06;
    return [low - margin, high + margin];
  };
  const [x, y] = [range(0), range(1)];
  return {
    x: (value) => EDGE.left + ((value - x[0]) / (x[1] - x[0])) * (WIDTH - EDGE.left - EDGE.right),
    y: (value) => HEIGHT - EDGE.bottom - ((value - y[0]) / (y[1] - y[0])) * (HEIGHT - EDGE.top - EDGE.bottom),
    zero: { x: x[0] < 0 && x[1] > 0, y: y[0] < 0 && y[1] > 0 },
  };
}

/** The plane with its axes' names; `layers` are SVG nodes, drawn in their order. */
export function plane(scale, axes, label, ...layers) {
  const frame = [];
  if (scale.zero.x) frame.push(svg("line", { x1: scale.x(0), x2: scale.x(0), y1: EDGE.top, y2: HEIGHT - EDGE.bottom, class: "axis" }));
  if (scale.zero.y) frame.push(svg("line", { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: scale.y(0), y2: scale.y(0), class: "axis" }));
  const middle = (EDGE.top + HEIGHT - EDGE.bottom) / 2;
  return drawing(WIDTH, HEIGHT, label,
    svg("rect", { x: EDGE.left, y: EDGE.top, width: WIDTH - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom, class: "frame" }),
    frame,
    svg("text", { x: (EDGE.left + WIDTH - EDGE.right) / 2, y: HEIGHT - 10, "text-anchor": "middle", class: "axis-name" }, shortened(axes[0], Math.floor(WIDTH / 6.5))),
    svg("text", { x: 0, y: 0, transform: `translate(16 ${middle}) rotate(-90)`, "text-anchor": "middle", class: "axis-name" }, shortened(axes[1], Math.floor(HEIGHT / 6.5))),
    layers);
}

const SPOTS = [[1, 0], [-1, 0], [0, -1], [0, 1], [0.8, -0.8], [-0.8, -0.8], [0.8, 0.8], [-0.8, 0.8]];

/**
 * Names beside their points, the first of the list first; one that finds no free spot is left out (its tooltip still shows it).
 * `items` are { x, y, radius, name, class } in drawing coordinates; `taken` are boxes to keep clear.
 */
export function names(items, taken = []) {
  const boxes = [...taken, ...items.map((item) => box(item.x - item.radius, item.y - item.radius, 2 * item.radius, 2 * item.radius))];
  const out = [];
  for (const item of items) {
    const text = shortened(item.name, 22);
    const [width, height] = [text.length * 6.1 + 4, 13];
    for (const far of [4, 12, 22]) {
      const spot = SPOTS.map(([dx, dy]) => {
        const reach = item.radius + far;
        return box(item.x + dx * (reach + width / 2) - width / 2, item.y + dy * (reach + height / 2) - height / 2, width, height);
      }).find((item) => inside(item) && !boxes.some((other) => overlap(item, other)));
      if (!spot) continue;
      boxes.push(spot);
      if (far > 10) out.push(svg("line", { x1: item.x, y1: item.y, x2: spot.x + width / 2, y2: spot.y + height / 2, class: "leader" }));
      out.push(svg("text", { x: spot.x + width / 2, y: spot.y + height - 3, "text-anchor": "middle", class: `name ${item.class ?? ""}` }, text));
      break;
    }
  }
  return out;
}

const box = (x, y, width, height) => ({ x, y, width, height });
const overlap = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
const inside = (a) => a.x >= EDGE.left && a.x + a.width <= WIDTH - EDGE.right && a.y >= EDGE.top && a.y + a.height <= HEIGHT - EDGE.bottom;
