"use strict";
const LABEL = 180, ROW = 17, HEAD = 22, AXIS = 22;
const byId = (id) => document.getElementById(id);
const grouped = (n) => Math.round(n).toLocaleString("en-US");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name);
let launch, tops, view, whole, chosen = null, sortBy = null, file = null;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Chooses the launch that is shown.
function show(index) {
  launch = DATA.launches[index];
  [...byId("launches").children].forEach((b, i) => b.setAttribute("aria-pressed", i === index));
  let y = AXIS, block = null;
  tops = launch.rows.map((row) => {
    if (row.block !== block) { y += HEAD; block = row.block; }
    const top = y;
    y += ROW;
    return top;
  });
  launch.height = y + 8;
  const ends = launch.rows.map((row) => row.spans.length ? row.spans[row.spans.length - 1][1] : 0);
  whole = [0, Math.max(1, ...ends)];
  view = [...whole];
  chosen = null;
  let facts = `${launch.kernel}, seed ${launch.seed}: ${grouped(whole[1])} steps; ` +
    `${launch.recorded} of ${launch.blocks} blocks were recorded.`;
  if (launch.left_out) facts += ` ${grouped(launch.left_out)} spans were left out.`;
  byId("facts").textContent = facts;
  draw();
  estimate();
  lines();
}

// The first span of a row that ends behind a step.
function firstAfter(spans, step) {
  let low = 0, high = spans.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (spans[mid][1] < step) low = mid + 1; else high = mid;
  }
  return low;
}

function draw() {
  const canvas = byId("timeline"), frame = byId("frame");
  const width = frame.clientWidth, height = launch.height, scale = window.devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const c = canvas.getContext("2d");
  c.scale(scale, scale);
  c.font = "11px system-ui, sans-serif";
  c.textBaseline = "middle";
  const colours = {}, text = colour("text"), faint = colour("faint"), line = colour("line");
  for (const name of ["run", "wait", "copy", "wgmma", "phase"]) colours[name] = colour(name);
  const x = (step) => LABEL + (step - view[0]) / (view[1] - view[0]) * (width - LABEL);
  // The axis: a tick each 1, 2 or 5 times a power of ten.
  const rough = (view[1] - view[0]) / Math.max(1, (width - LABEL) / 90);
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const tick = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough) || 10 * power;
  c.fillStyle = faint;
  for (let step = Math.ceil(view[0] / tick) * tick; step <= view[1]; step += tick) {
    c.fillText(grouped(step), x(step) + 3, AXIS / 2);
    c.fillRect(x(step), 0, 1, AXIS);
    c.globalAlpha = 0.25;
    c.fillRect(x(step), AXIS, 1, height);
    c.globalAlpha = 1;
  }
  let block = null;
  launch.rows.forEach((row, i) => {
    const top = tops[i];
    if (row.block !== block) {
      block = row.block;
      c.fillStyle = line;
      c.fillRect(0, top - HEAD + 3, width, 1);
      c.fillStyle = text;
      c.fillText(block, 8, top - HEAD / 2 + 3);
    }
    c.fillStyle = faint;
    c.fillText(row.name, 16, top + ROW / 2);
    // Spans narrower than a pixel are drawn once for each pixel.
    let last = -1;
    for (let s = firstAfter(row.spans, view[0]); s < row.spans.length; s++) {
      const [start, end, kind, name] = row.spans[s];
      if (start > view[1]) break;
      const from = Math.max(LABEL, x(start)), to = Math.min(width, x(end));
      if (to < LABEL || to <= last) continue;
      last = to - from < 1 ? from + 1 : to - 0.01;
      c.fillStyle = colours[kind];
      c.fillRect(from, top + 1, Math.max(1, to - from - (to - from > 3 ? 0.6 : 0)), ROW - 3);
      if (to - from > 46) {
        c.save();
        c.beginPath();
        c.rect(from, top, to - from - 3, ROW);
        c.clip();
        c.fillStyle = kind === "run" || kind === "copy" || kind === "wgmma" ? "#fff" : text;
        c.fillText(name, from + 4, top + ROW / 2);
        c.restore();
      }
    }
  });
}

// The span under the mouse.
function under(event) {
  const box = byId("timeline").getBoundingClientRect();
  const px = event.clientX - box.left, py = event.clientY - box.top;
  const i = tops.findIndex((top) => py >= top && py < top + ROW);
  if (i < 0 || px < LABEL) return null;
  const slack = 2 * (view[1] - view[0]) / (box.width - LABEL);
  const step = view[0] + (px - LABEL) / (box.width - LABEL) * (view[1] - view[0]);
  const spans = launch.rows[i].spans;
  const s = firstAfter(spans, step - slack);
  return s < spans.length && spans[s][0] <= step + slack ? [launch.rows[i], spans[s]] : null;
}

function place(index) {
  const { ptx_line, ptx, source } = launch.lines[index];
  return (source ? `${source.file}:${source.line}, ` : "") + `PTX line ${ptx_line}: ${ptx}`;
}

function listen() {
  const canvas = byId("timeline");
  let from = null;
  const stepsPerPixel = () => (view[1] - view[0]) / (canvas.clientWidth - LABEL);
  const set = (start, end) => {
    const length = Math.min(end - start, whole[1] - whole[0]);
    start = Math.min(Math.max(start, whole[0]), whole[1] - length);
    view = [start, start + length];
    draw();
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const at = event.clientX - canvas.getBoundingClientRect().left - LABEL;
    const centre = view[0] + Math.max(0, at) * stepsPerPixel();
    const factor = Math.exp(event.deltaY * 0.0015);
    const length = Math.max(10, (view[1] - view[0]) * factor) / (view[1] - view[0]);
    set(centre - (centre - view[0]) * length, centre + (view[1] - centre) * length);
  }, { passive: false });
  canvas.addEventListener("mousedown", (event) => { from = [event.clientX, [...view], false]; });
  window.addEventListener("mouseup", () => { from = null; });
  canvas.addEventListener("mousemove", (event) => {
    if (from) {
      const by = (from[0] - event.clientX) * stepsPerPixel();
      set(from[1][0] + by, from[1][1] + by);
      return;
    }
    const found = under(event);
    if (!found) { byId("under").textContent = ""; return; }
    const [row, [start, end, , name, first, last]] = found;
    let text = `${row.block}, ${row.name}: ${name}; steps ${grouped(start)} to ${grouped(end)}, ` +
      `${grouped(end - start)} long\n${place(first)}`;
    if (last !== first) text += `\n${place(last)}`;
    byId("under").textContent = text;
  });
  canvas.addEventListener("dblclick", () => set(...whole));
  canvas.addEventListener("click", (event) => {
    const found = under(event);
    if (!found) return;
    chosen = launch.lines[found[1][4]];
    if (chosen.source && DATA.sources[chosen.source.file]) file = chosen.source.file;
    lines();
    const row = document.querySelector("tr.chosen");
    if (row) row.scrollIntoView({ block: "center" });
  });
  window.addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

function estimate() {
  const section = byId("estimate"), profile = launch.profile;
  section.hidden = !profile;
  if (!profile) return;
  const all = profile.estimate, table = element("table", undefined, "bound");
  const time = (s) => s < 1e-6 ? `${(s * 1e9).toFixed(2)} ns` : s < 1e-3 ? `${(s * 1e6).toFixed(2)} us`
    : `${(s * 1e3).toFixed(2)} ms`;
  for (const bound of all.bounds) {
    const row = element("tr"), bar = element("span", "", "bar");
    bar.style.width = `${Math.max(2, 220 * bound.seconds / all.bounds[0].seconds)}px`;
    row.append(element("td", bound.resource), element("td", time(bound.seconds)));
    row.append(element("td", `${grouped(bound.work)} ${bound.unit}`), element("td"));
    row.lastChild.append(bar);
    table.append(row);
  }
  const head = all.bounds.length ? `${all.gpu}: at least ${time(all.bounds[0].seconds)}, bound by ` +
    `${all.bounds[0].resource}.` : `${all.gpu}: nothing to do.`;
  const note = "Not a measurement: peak rates, everything overlapped, no latency, each distinct byte " +
    `moved once; ${all.multiprocessors_busy} multiprocessors busy.`;
  const shared = profile.shared, counted = `Shared memory: ${grouped(shared.wavefronts)} wavefronts, ` +
    `${grouped(shared.bank_conflicts)} of them bank conflicts.`;
  section.querySelector("div").replaceChildren(element("p", head), table, element("p", counted),
    element("p", note, "small"));
}

const COLUMNS = [["warp", "issued"], ["waited", "steps waited"], ["sectors", "sectors"],
  ["wavefronts", "wavefronts"], ["bank_conflicts", "conflicts"]];

// Figures of each line: of the PTX, and of each source file.
function figures() {
  const ptx = new Map(), files = new Map();
  const at = (map, key) => {
    if (!map.has(key)) map.set(key, { warp: 0, waited: 0, sectors: 0, wavefronts: 0, bank_conflicts: 0 });
    return map.get(key);
  };
  const each = (line, add) => {
    add(at(ptx, line.ptx_line));
    ptx.get(line.ptx_line).ptx = line.ptx;
    if (!line.source) return;
    if (!files.has(line.source.file)) files.set(line.source.file, new Map());
    add(at(files.get(line.source.file), line.source.line));
  };
  for (const line of launch.profile ? launch.profile.lines : []) {
    each(line, (sum) => {
      for (const name of ["warp", "sectors", "wavefronts", "bank_conflicts"]) sum[name] += line[name];
    });
  }
  for (const row of launch.rows) {
    for (const [start, end, kind, , first] of row.spans) {
      if (kind === "wait") each(launch.lines[first], (sum) => { sum.waited += end - start; });
    }
  }
  return { ptx, files };
}

function lines() {
  const { ptx, files } = figures(), section = byId("lines");
  section.hidden = ptx.size === 0;
  const shown = [...files.keys()].filter((name) => DATA.sources[name]);
  if (file !== "PTX" && !shown.includes(file)) file = shown[0] || "PTX";
  byId("views").replaceChildren(...[...shown, "PTX"].map((name) => {
    const button = element("button", name);
    button.setAttribute("aria-pressed", name === file);
    button.onclick = () => { file = name; sortBy = null; lines(); };
    return button;
  }));
  const counted = file === "PTX" ? ptx : files.get(file);
  let rows;
  if (file === "PTX") {
    rows = [...ptx.entries()].map(([number, sum]) => [number, sum.ptx, sum]);
    rows.sort((a, b) => a[0] - b[0]);
  } else {
    rows = DATA.sources[file].map((text, i) => [i + 1, text, counted.get(i + 1)]);
  }
  if (sortBy) {
    rows = rows.filter((row) => row[2] && row[2][sortBy]);
    rows.sort((a, b) => b[2][sortBy] - a[2][sortBy]);
  }
  const most = {};
  for (const [key] of COLUMNS) most[key] = Math.max(1, ...[...counted.values()].map((sum) => sum[key]));
  const head = element("tr");
  for (const [key, title] of COLUMNS) {
    const cell = element("th", title + (sortBy === key ? " \u2193" : ""));
    cell.title = "Sort by it, or back to the order of the text";
    cell.onclick = () => { sortBy = sortBy === key ? null : key; lines(); };
    head.append(cell);
  }
  head.append(element("th", "line"), element("th", file));
  document.querySelector("#lines thead").replaceChildren(head);
  const is_chosen = (number) => chosen && (file === "PTX" ? chosen.ptx_line === number
    : chosen.source && chosen.source.file === file && chosen.source.line === number);
  document.querySelector("#lines tbody").replaceChildren(...rows.map(([number, text, sum]) => {
    const row = element("tr", undefined, is_chosen(number) ? "chosen" : "");
    for (const [key] of COLUMNS) {
      const value = sum ? sum[key] : 0, cell = element("td", value ? grouped(value) : "");
      const share = Math.round(100 * value / most[key]);
      if (value) cell.style.background = `color-mix(in srgb, var(--hot) ${share}%, transparent)`;
      row.append(cell);
    }
    row.append(element("td", number, "place"), element("td", text, "code"));
    return row;
  }));
}

DATA.launches.forEach((one, i) => {
  const button = element("button", one.kernel);
  button.onclick = () => show(i);
  byId("launches").append(button);
});
if (DATA.finding) {
  byId("finding").hidden = false;
  byId("finding").textContent = DATA.finding;
}
if (DATA.launches.length) {
  listen();
  show(0);
}
