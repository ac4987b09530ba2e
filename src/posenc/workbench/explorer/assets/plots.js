// Drawings of the explorer as SVG. The values come from posenc; here they only get places and colors.
"use strict";

const posencPlots = (() => {
  const WIDTH = 340, LEFT = 52, RIGHT = 10, TOP = 8;
  const COLORS = ["var(--first)", "var(--second)", "var(--third)", "var(--fourth)"];
  const DASHES = ["", "6 3", "2 2"];
  const LEVELS = 24;

  function element(name, attributes = {}, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function text(x, y, words, attributes = {}) {
    return element("text", { x, y, ...attributes }, String(words));
  }

  /** Values of a packed map: whole numbers between the smallest and the largest value; null where one is missing. */
  function unpack(map) {
    const most = 254;
    return Array.from(atob(map.data), (letter) => {
      const step = letter.charCodeAt(0);
      return step > most ? null : map.low + (step / most) * (map.high - map.low);
    });
  }

  function number(value) {
    if (value === null) return "masked";
    const size = Math.abs(value);
    if (size !== 0 && (size < 0.001 || size >= 10000)) return value.toExponential(1).replace(".0e", "e").replace("+", "");
    return String(Number(value.toPrecision(3)));
  }

  function ticks(low, high, log) {
    if (log) {
      const found = [];
      const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
      const step = Math.max(1, Math.ceil((last - first) / 5));
      for (let power = first; power <= last; power += step) found.push(10 ** power);
      return found.length > 1 ? found : [low, high];
    }
    const rough = (high - low) / 4 || 1, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(value);
    return found;
  }

  function scale(values, log, from, to) {
    const known = values.filter((value) => value !== null && (!log || value > 0));
    let low = Math.min(...known), high = Math.max(...known);
    if (!known.length) [low, high] = [log ? 1 : 0, 1];
    if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - Math.max(0.5, Math.abs(low) / 2), high + Math.max(0.5, Math.abs(high) / 2)];
    const place = (value) => (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
    const known_ = (value) => value !== null && (!log || value > 0);
    return { low, high, at: (value) => from + place(value) * (to - from), ticks: ticks(low, high, log), known: known_ };
  }

  function axes(svg, x, y, drawing, bottom) {
    for (const value of y.ticks) {
      svg.append(element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(value), y2: y.at(value), stroke: "var(--grid)" }));
      svg.append(text(LEFT - 5, y.at(value) + 4, number(value), { "text-anchor": "end", class: "muted" }));
    }
    for (const value of x.ticks) {
      svg.append(element("line", { x1: x.at(value), x2: x.at(value), y1: bottom, y2: bottom + 4, stroke: "var(--muted)" }));
      svg.append(text(x.at(value), bottom + 16, number(value), { "text-anchor": "middle", class: "muted" }));
    }
    svg.append(element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: bottom, y2: bottom, stroke: "var(--muted)" }));
    svg.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 31, drawing.x_label, { "text-anchor": "middle" }));
    svg.append(text(-(TOP + bottom) / 2, 12, drawing.y_label, { "text-anchor": "middle", transform: "rotate(-90)" }));
  }

  /** Path through known points; it is interrupted where a value is missing. */
  function path(xs, ys, x, y) {
    let down = false;
    return xs.map((value, index) => {
      if (!x.known(value) || !y.known(ys[index])) { down = false; return ""; }
      const command = down ? "L" : "M";
      down = true;
      return `${command}${x.at(value).toFixed(2)} ${y.at(ys[index]).toFixed(2)}`;
    }).join("");
  }

  function lines(drawing) {
    const bottom = 178, series = drawing.series, named = series.length > 1 || series[0].low !== undefined;
    const height = bottom + 40 + (named ? 15 * series.length : 0);
    const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img" });
    const marks = drawing.marks ?? [];
    const xs = [...series.flatMap((each) => each.x), ...marks.filter((each) => each.x).map((each) => each.x)];
    const ys = [...series.flatMap((each) => [...each.y, ...(each.low ?? []), ...(each.high ?? [])]), ...marks.filter((each) => each.y).map((each) => each.y)];
    const x = scale(xs, drawing.x_log, LEFT + 4, WIDTH - RIGHT - 6), y = scale(ys, drawing.y_log, bottom - 6, TOP);
    axes(svg, x, y, drawing, bottom);
    for (const mark of marks) {
      const place = mark.x ? { x1: x.at(mark.x), x2: x.at(mark.x), y1: TOP, y2: bottom } : { x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(mark.y), y2: y.at(mark.y) };
      svg.append(element("line", { ...place, stroke: "var(--foreground)", "stroke-dasharray": "4 3" }));
      const end = mark.x ? { x: Math.min(place.x1 + 4, WIDTH - 90), y: TOP + 10 } : { x: WIDTH - RIGHT - 4, y: place.y1 - 4 };
      svg.append(text(end.x, end.y, mark.label, mark.x ? {} : { "text-anchor": "end" }));
    }
    series.forEach((each, index) => {
      const stroke = COLORS[index % COLORS.length], dash = DASHES[Math.floor(index / COLORS.length) % DASHES.length];
      if (each.low) {
        const back = path([...each.x].reverse(), [...each.low].reverse(), x, y).replace("M", "L");
        svg.append(element("path", { d: `${path(each.x, each.high, x, y)}${back}Z`, fill: stroke, "fill-opacity": 0.25 }));
      }
      svg.append(element("path", { d: path(each.x, each.y, x, y), fill: "none", stroke, "stroke-width": 1.8, "stroke-dasharray": dash }));
      if (each.points) each.x.forEach((value, at) => {
        if (x.known(value) && y.known(each.y[at])) svg.append(element("circle", { cx: x.at(value), cy: y.at(each.y[at]), r: 2.2, fill: stroke }));
      });
      if (named) {
        const line = bottom + 47 + 15 * index;
        svg.append(element("line", { x1: LEFT, x2: LEFT + 26, y1: line - 4, y2: line - 4, stroke, "stroke-width": 2.4, "stroke-dasharray": dash }));
        svg.append(text(LEFT + 32, line, each.name));
      }
    });
    svg.setAttribute("aria-label", `${drawing.title}. ${drawing.y_label} from ${number(y.low)} to ${number(y.high)}; ${drawing.x_label} from ${number(x.low)} to ${number(x.high)}. ${series.map((each) => each.name).join(", ")}.`);
    return svg;
  }

  /** Cells as one path for each level of color. */
  function cells(svg, values, low, high, outline, crisp = true) {
    const levels = Array.from({ length: LEVELS + 1 }, () => []);
    values.forEach((value, index) => {
      if (value !== null) levels[Math.round(((value - low) / (high - low || 1)) * LEVELS)].push(outline(index));
    });
    levels.forEach((paths, level) => {
      if (level && paths.length) svg.append(element("path", { d: paths.join(""), fill: "var(--first)", "fill-opacity": (level / LEVELS).toFixed(3), "shape-rendering": crisp ? "crispEdges" : "auto" }));
    });
  }

  function colorScale(svg, y, low, high) {
    for (let level = 1; level <= LEVELS; level += 1) {
      svg.append(element("rect", { x: LEFT + 5 * level, y, width: 5.2, height: 8, fill: "var(--first)", "fill-opacity": (level / LEVELS).toFixed(3) }));
    }
    svg.append(element("rect", { x: LEFT, y, width: 5 * LEVELS + 5, height: 8, fill: "none", stroke: "var(--muted)" }));
    svg.append(text(LEFT - 5, y + 8, number(low), { "text-anchor": "end", class: "muted" }));
    svg.append(text(LEFT + 5 * LEVELS + 12, y + 8, number(high), { class: "muted" }));
  }

  function placed(axis, count) {
    return (index) => {
      const value = axis.first + axis.step * Math.round(index * (count - 1));
      return number(Math.abs(value) < Math.abs(axis.step) * 1e-6 ? 0 : value);  // a sum of steps is rarely exactly 0
    };
  }

  function matrix(drawing, values = unpack(drawing.values)) {
    const [rows, columns] = drawing.values.shape, { low, high } = drawing.values;
    const wide = WIDTH - LEFT - RIGHT, tall = Math.max(120, Math.min(wide, (wide * rows) / columns)), bottom = TOP + tall;
    const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${bottom + 58}`, role: "img" });
    const w = wide / columns, h = tall / rows;
    // Neighbors share the text of their edge, so that no gap opens between them.
    const right = (index) => (LEFT + index * w).toFixed(2), down = (index) => (TOP + index * h).toFixed(2);
    cells(svg, values, low, high, (index) => {
      const at = Math.floor(index / columns), across = index % columns;
      return `M${right(across)} ${down(at)}H${right(across + 1)}V${down(at + 1)}H${right(across)}Z`;
    });
    svg.append(element("rect", { x: LEFT, y: TOP, width: wide, height: tall, fill: "none", stroke: "var(--muted)" }));
    const column = placed(drawing.columns, columns), row = placed(drawing.rows, rows);
    for (const part of [0, 0.5, 1]) {
      svg.append(text(LEFT + w / 2 + part * (wide - w), bottom + 14, column(part), { "text-anchor": "middle", class: "muted" }));
      svg.append(text(LEFT - 5, TOP + h / 2 + 4 + part * (tall - h), row(part), { "text-anchor": "end", class: "muted" }));
    }
    svg.append(text(LEFT + wide / 2, bottom + 29, drawing.x_label, { "text-anchor": "middle" }));
    svg.append(text(-(TOP + bottom) / 2, 12, drawing.y_label, { "text-anchor": "middle", transform: "rotate(-90)" }));
    colorScale(svg, bottom + 42, low, high);
    svg.setAttribute("aria-label", `${drawing.title}: ${rows} rows (${drawing.y_label}) and ${columns} columns (${drawing.x_label}), values from ${number(low)} to ${number(high)}.`);
    return svg;
  }

  /** One row of a matrix, chosen by a part from 0 to 1 of its rows. */
  function row(drawing, part) {
    const [rows, columns] = drawing.values.shape, chosen = Math.round(part * (rows - 1));
    const values = unpack(drawing.values).slice(chosen * columns, (chosen + 1) * columns);
    const x = values.map((_, index) => drawing.columns.first + drawing.columns.step * index);
    const place = drawing.rows.first + drawing.rows.step * chosen;
    return lines({ title: `${drawing.title}, query at ${number(place)}`, x_label: drawing.x_label, y_label: drawing.value, series: [{ name: "weight", x, y: values, points: true }], marks: place ? [{ x: place, label: "query" }] : [] });
  }

  function nearestQuery(drawing, place) {
    const [rows, columns] = [drawing.rows.length, drawing.columns.length];
    let best = 0, least = Infinity;
    drawing.queries.forEach(([row, column], index) => {
      const far = (row / (rows - 1) - place[0]) ** 2 + (column / (columns - 1) - place[1]) ** 2;
      if (far < least) [best, least] = [index, far];
    });
    return best;
  }

  function plane(drawing, place) {
    const rows = drawing.rows.length, columns = drawing.columns.length, query = nearestQuery(drawing, place);
    const values = unpack(drawing.values).slice(query * rows * columns, (query + 1) * rows * columns);
    const [row, column] = drawing.queries[query];
    if (drawing.globe) return globe(drawing, values, row, column);
    const axis = (ends) => ({ first: ends[0], step: (ends[ends.length - 1] - ends[0]) / (ends.length - 1) });
    const shown = { ...drawing, title: `${drawing.title}, query at (${number(drawing.rows[row])}, ${number(drawing.columns[column])})`, x_label: drawing.x, y_label: drawing.y, columns: axis(drawing.columns), rows: axis(drawing.rows), values: { ...drawing.values, shape: [rows, columns] } };
    const svg = matrix(shown, values);
    const wide = WIDTH - LEFT - RIGHT, tall = Math.max(120, (wide * rows) / columns);
    mark(svg, LEFT + ((column + 0.5) * wide) / columns, TOP + ((row + 0.5) * tall) / rows);
    svg.placeOf = (x, y) => [(y - TOP) / tall, (x - LEFT) / wide];
    return svg;
  }

  function mark(svg, x, y) {
    svg.append(element("circle", { cx: x, cy: y, r: 6, fill: "none", stroke: "var(--background)", "stroke-width": 4 }));
    svg.append(element("circle", { cx: x, cy: y, r: 6, fill: "none", stroke: "var(--second)", "stroke-width": 2.2 }));
  }

  /** Two orthographic views of the globe: the side of the query, and the other side. */
  function globe(drawing, values, row, column) {
    const radius = 78, half = [180 / drawing.rows.length / 2, 360 / drawing.columns.length / 2], turn = Math.PI / 180;
    const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${2 * radius + 66}`, role: "img" });
    const center = [drawing.rows[row], drawing.columns[column]];
    const seen = (lat, lon, flip) => {
      const away = (lon - center[1]) * turn, north = lat * turn, tilt = center[0] * turn;
      const depth = Math.sin(tilt) * Math.sin(north) + Math.cos(tilt) * Math.cos(north) * Math.cos(away);
      const right = Math.cos(north) * Math.sin(away), up = Math.cos(tilt) * Math.sin(north) - Math.sin(tilt) * Math.cos(north) * Math.cos(away);
      return flip ? [-right, up, -depth] : [right, up, depth];
    };
    [false, true].forEach((flip, side) => {
      const middle = radius + 6 + side * (2 * radius + 10);
      const at = ([right, up]) => `${(middle + radius * right).toFixed(2)} ${(TOP + radius - radius * up).toFixed(2)}`;
      const shown = values.map((value, index) => {
        const lat = drawing.rows[Math.floor(index / drawing.columns.length)], lon = drawing.columns[index % drawing.columns.length];
        return seen(lat, lon, flip)[2] > -0.02 ? value : null;
      });
      svg.append(element("circle", { cx: middle, cy: TOP + radius, r: radius, fill: "none", stroke: "var(--muted)" }));
      cells(svg, shown, drawing.values.low, drawing.values.high, (index) => {
        const lat = drawing.rows[Math.floor(index / drawing.columns.length)], lon = drawing.columns[index % drawing.columns.length];
        const corners = [[-1, -1], [-1, 0], [-1, 1], [0, 1], [1, 1], [1, 0], [1, -1], [0, -1]];
        const points = corners.map(([north, east]) => {
          const [right, up, depth] = seen(Math.max(-90, Math.min(90, lat + north * half[0])), lon + east * half[1], flip);
          const size = Math.hypot(right, up);
          return at(depth < 0 && size ? [right / size, up / size] : [right, up]);  // beyond the edge: onto the edge
        });
        return `M${points.join("L")}Z`;
      }, false);
      svg.append(text(middle, TOP + 2 * radius + 16, side ? "other side" : "side of the query", { "text-anchor": "middle" }));
    });
    mark(svg, radius + 6, TOP + radius);
    colorScale(svg, TOP + 2 * radius + 34, drawing.values.low, drawing.values.high);
    const title = `${drawing.title}, query at longitude ${number(center[1])}°, latitude ${number(center[0])}°`;
    svg.setAttribute("aria-label", `${title}; values from ${number(drawing.values.low)} to ${number(drawing.values.high)}.`);
    const home = [row / (drawing.rows.length - 1), column / (drawing.columns.length - 1)];
    svg.turnBy = (dx, dy) => [home[0] + dy / radius / Math.PI, (((home[1] - dx / radius / 2 / Math.PI) % 1) + 1) % 1];
    return svg;
  }

  /** SVG of a drawing. place: part of the rows and columns at which the query of a map is; query: part of the rows. */
  function draw(drawing, { place, query }) {
    if (drawing.form === "lines") return lines(drawing);
    if (drawing.form === "matrix") return matrix(drawing);
    return drawing.form === "rows" ? row(drawing, query) : plane(drawing, place);
  }

  /** Text of a file of an SVG, with the colors that it has on the page. */
  function file(svg) {
    const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((node, index) => {
      const style = getComputedStyle(node);
      for (const name of ["fill", "stroke"]) if (node.hasAttribute(name) || node.tagName === "text") to[index].setAttribute(name, style[name]);
      if (node.tagName === "text") to[index].setAttribute("style", `font: ${style.fontSize} sans-serif`);
      to[index].removeAttribute("class");
    });
    const [, , width, height] = svg.getAttribute("viewBox").split(" ");
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.prepend(element("rect", { width, height, fill: getComputedStyle(document.body).backgroundColor }));
    return copy.outerHTML;
  }

  return { draw, file };
})();
