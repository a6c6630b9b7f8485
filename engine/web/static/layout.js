// Positions of boxes, edges and labels of the graph, in pixels. Plain computation: no document.

export const BOX = { width: 172, height: 72 };
const GAP = { x: 96, y: 28 };
const MARGIN = { x: 18, y: 26 };
const STEP = { x: BOX.width + GAP.x, y: BOX.height + GAP.y };
export const LABEL = { width: 56, height: 16 };
export const TIP = 9; // length of an arrowhead
const LANE = 5; // distance of edges that share a gap between boxes

export const edgeKey = (source, target) => JSON.stringify([source, target]);

/** Return {boxes: Map id -> {x, y}, edges: [...], width, height}. x, y: centre of a box. */
export function layout(components, edges) {
  const boxes = placed(components);
  const columns = columnsOf(boxes);
  const pairs = pairsOf(edges, boxes);
  const used = new Map();
  for (const pair of pairs) Object.assign(pair, route(boxes.get(pair.source), boxes.get(pair.target), columns, used));
  const all = [...boxes.values()];
  const depth = Math.max(0, ...pairs.map((pair) => pair.lowest));
  return {
    boxes,
    edges: pairs,
    width: Math.max(0, ...all.map((box) => box.x)) + BOX.width / 2 + MARGIN.x,
    height: Math.max(depth + 8, ...all.map((box) => box.y + BOX.height / 2)) + MARGIN.y / 2,
  };
}

/** Place the boxes in columns. Columns without a visible box take no space. */
function placed(components) {
  const known = components.map(({ id, x, y }) => ({ id, x: Number(x) || 0, y: Number(y) || 0 }));
  const xs = [...new Set(known.map((each) => each.x))].sort((a, b) => a - b);
  const columns = new Map(); // x -> number of its column
  let column = -1;
  xs.forEach((x, index) => {
    if (index === 0 || x - xs[index - 1] > 0.25) column += 1;
    columns.set(x, column);
  });
  const top = Math.min(...known.map((each) => each.y));
  const unit = smallestGap(known, columns);
  const boxes = new Map();
  for (const { id, x, y } of known) {
    boxes.set(id, {
      x: MARGIN.x + BOX.width / 2 + columns.get(x) * STEP.x,
      y: MARGIN.y + BOX.height / 2 + ((y - top) / unit) * STEP.y,
    });
  }
  return boxes;
}

/** Return the smallest vertical distance of two boxes of one column. */
function smallestGap(known, columns) {
  const byColumn = new Map();
  for (const { x, y } of known) byColumn.set(columns.get(x), [...(byColumn.get(columns.get(x)) ?? []), y]);
  let smallest = Infinity;
  for (const ys of byColumn.values()) {
    ys.sort((a, b) => a - b);
    ys.forEach((y, index) => {
      if (index && y - ys[index - 1] > 0.05) smallest = Math.min(smallest, y - ys[index - 1]);
    });
  }
  return Number.isFinite(smallest) ? smallest : 1;
}

/** Return [{x, ys}] from left to right. */
function columnsOf(boxes) {
  const columns = new Map();
  for (const { x, y } of boxes.values()) columns.set(x, [...(columns.get(x) ?? []), y]);
  return [...columns].sort(([a], [b]) => a - b).map(([x, ys]) => ({ x, ys: ys.sort((a, b) => a - b) }));
}

/** Return one entry for each pair of components that have an edge, with its streams. */
function pairsOf(edges, boxes) {
  const pairs = new Map();
  for (const { source, target, stream, grouping } of edges) {
    if (!boxes.has(source) || !boxes.has(target)) continue;
    const key = edgeKey(source, target);
    if (!pairs.has(key)) pairs.set(key, { key, source, target, streams: [] });
    pairs.get(key).streams.push(grouping ? `${stream} (${grouping})` : String(stream));
  }
  return [...pairs.values()];
}

/** Return {path, curves, end, lowest}. An edge passes between the boxes of the columns on its way. */
function route(from, to, columns, used) {
  if (to.x <= from.x) return back(from, to);
  const start = [from.x + BOX.width / 2, from.y];
  const end = [to.x - BOX.width / 2 - TIP, to.y];
  const stops = [start];
  for (const column of columns) {
    if (column.x <= from.x || column.x >= to.x) continue;
    const share = (column.x - from.x) / (to.x - from.x);
    const y = freeY(column, from.y + (to.y - from.y) * share, used);
    stops.push([column.x - BOX.width / 2, y], [column.x + BOX.width / 2, y]);
  }
  stops.push(end);
  const curves = [];
  let path = `M${point(start)}`;
  for (let index = 0; index + 1 < stops.length; index += 2) {
    if (index) path += `L${point(stops[index])}`;
    const curve = bend(stops[index], stops[index + 1]);
    curves.push(curve);
    path += `C${curve.slice(1).map(point).join(" ")}`;
  }
  return { path, curves, end, lowest: Math.max(...stops.map(([, y]) => y)) };
}

/** Return the gap of a column that is nearest to y. Edges that share a gap get lanes. */
function freeY(column, y, used) {
  const { ys } = column;
  const gaps = [ys[0] - STEP.y / 2, ...ys.map((each, index) => (index + 1 < ys.length ? (each + ys[index + 1]) / 2 : each + STEP.y / 2))];
  const isWide = (gap) => ys.every((each) => Math.abs(each - gap) >= BOX.height / 2 + 6);
  const inside = ys.every((each) => Math.abs(each - y) >= BOX.height / 2 + 8);
  if (inside) return y;
  const best = gaps.filter(isWide).sort((a, b) => Math.abs(a - y) - Math.abs(b - y))[0] ?? y;
  const key = `${column.x} ${Math.round(best)}`;
  const number = used.get(key) ?? 0;
  used.set(key, number + 1);
  return best + (number % 2 ? -1 : 1) * Math.ceil(number / 2) * LANE;
}

/** Return the curve of an edge that runs against the direction, below its boxes. */
function back(from, to) {
  const start = [from.x + BOX.width / 2, from.y + BOX.height / 4];
  const end = [to.x - BOX.width / 2 - TIP, to.y + BOX.height / 4];
  const y = Math.max(from.y, to.y) + BOX.height / 2 + 16;
  const out = [start, [start[0] + 34, start[1]], [start[0] + 34, y], [start[0] - 10, y]];
  const home = [[end[0] + 10, y], [end[0] - 34, y], [end[0] - 34, end[1]], end];
  const path = `M${point(start)}C${out.slice(1).map(point).join(" ")}L${point(home[0])}C${home.slice(1).map(point).join(" ")}`;
  const middle = [out[3], out[3], home[0], home[0]];
  return { path, curves: [middle], end, lowest: y };
}

const point = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;

function bend(start, end) {
  const half = Math.max((end[0] - start[0]) / 2, 20);
  return [start, [start[0] + half, start[1]], [end[0] - half, end[1]], end];
}

/** Return the point of a cubic curve at t. */
export function pointOf([a, b, c, d], t) {
  const s = 1 - t;
  const mix = (index) => s * s * s * a[index] + 3 * s * s * t * b[index] + 3 * s * t * t * c[index] + t * t * t * d[index];
  return [mix(0), mix(1)];
}

/** Return [{place, isFree}], one for each edge, for labels of `zoom` times their usual size. A label without a free place shows on request. */
export function labelPlaces(pairs, boxes, zoom) {
  const [width, height] = [(LABEL.width + 4) * zoom, (LABEL.height + 2) * zoom];
  const taken = new Map(); // cell -> rectangles; cells keep this fast for many edges
  const cellsOf = ([x, y]) => [-1, 0, 1].flatMap((dx) => [-1, 0, 1].map((dy) => `${Math.floor(x / 200) + dx} ${Math.floor(y / 100) + dy}`));
  const isFree = ([x, y], near) => near.every((each) => Math.abs(x - each.x) >= each.reachX || Math.abs(y - each.y) >= each.reachY);
  const take = ([x, y], reachX, reachY) => {
    const cell = `${Math.floor(x / 200)} ${Math.floor(y / 100)}`;
    taken.set(cell, [...(taken.get(cell) ?? []), { x, y, reachX, reachY }]);
  };
  for (const { x, y } of boxes.values()) take([x, y], (BOX.width + LABEL.width * zoom) / 2, (BOX.height + LABEL.height * zoom) / 2);
  return pairs.map((pair) => {
    const curves = [pair.curves.at(-1), ...pair.curves.slice(0, -1)];
    const places = curves.flatMap((curve) => [0.5, 0.38, 0.62, 0.26, 0.74].map((t) => pointOf(curve, t)));
    const found = places.find((place) => isFree(place, cellsOf(place).flatMap((cell) => taken.get(cell) ?? [])));
    if (found) take(found, width, height);
    return { place: found ?? places[0], isFree: found !== undefined };
  });
}
