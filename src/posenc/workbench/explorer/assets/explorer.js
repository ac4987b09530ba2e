// The page of the explorer: encodings, their options, and the drawings of the arrays that posenc computed.
// The arrays come from files (the site; classic scripts, so that file:// works) or from the local server.
"use strict";

const posencExplorer = (() => {
  const MOST = 3, FIRST = ["kernel", "map", "values", "frequencies"];
  let root, known, waiting = new Map();
  const arrived = new Map();
  const state = { slots: [], show: [...FIRST], place: [0.5, 0.5], query: 1, trained: 64, factor: 4 };
  let resting = 0;
  let drawings = [];  // for each slot: name of a picture -> what was computed

  const make = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "on") Object.entries(value).forEach(([event, call]) => node.addEventListener(event, call));
      else if (value === true) node.setAttribute(key, "");
      else if (value !== false) node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  };
  const say = (words) => { root.querySelector(".explorer-status").textContent = words; };
  const schemeOf = (slot) => known.schemes[slot.scheme];

  // encodings as text ------------------------------------------------------------------------------------------------

  /** Parts of a text between commas that stand in no bracket and no quotes. */
  function split(text) {
    const parts = [];
    let depth = 0, quote = "", part = "";
    for (const letter of text) {
      if (quote) quote = letter === quote ? "" : quote;
      else if ("'\"".includes(letter)) quote = letter;
      else if ("([{".includes(letter)) depth += 1;
      else if (")]}".includes(letter)) depth -= 1;
      if (letter === "," && !depth && !quote) { parts.push(part); part = ""; } else part += letter;
    }
    return [...parts, part].map((each) => each.trim()).filter(Boolean);
  }

  function slotOf(call) {
    const open = call.indexOf("("), name = (open < 0 ? call : call.slice(0, open)).trim();
    if (!known.schemes[name]) return null;
    const slot = { scheme: name, options: startOptions(name) };
    for (const word of open < 0 ? [] : split(call.slice(open + 1, call.lastIndexOf(")")))) {
      const [option, ...value] = word.split("=");
      if (option.trim() in slot.options) slot.options[option.trim()] = value.join("=").trim();
    }
    return slot;
  }

  const startOptions = (name) => ({ ...known.schemes[name].start });

  function callOf(slot, label = false) {
    const words = schemeOf(slot).options.filter((each) => slot.options[each.name] !== "" && (each.required || slot.options[each.name] !== each.default));
    return `${label ? schemeOf(slot).label : slot.scheme}(${words.map((each) => `${each.name}=${slot.options[each.name]}`).join(", ")})`;
  }

  function readHash() {
    const given = new URLSearchParams(location.hash.slice(1));
    const slots = given.getAll("call").map(slotOf).filter(Boolean).slice(0, MOST);
    state.slots = slots.length ? slots : known.first.map(slotOf).filter(Boolean);
    if (given.has("show")) state.show = given.get("show").split(",").filter((each) => known.pictures.some((picture) => picture.name === each));
    const numbers = (given.get("at") ?? "").split(",").map(Number);
    if (numbers.length === 2 && numbers.every((each) => each >= 0 && each <= 1)) state.place = numbers;
    if (given.has("query")) state.query = Math.min(1, Math.max(0, Number(given.get("query")) || 0));
    if (known.live && Number(given.get("trained")) >= 2) state.trained = Math.round(Number(given.get("trained")));
    if (known.live && Number(given.get("factor")) >= 1) state.factor = Number(given.get("factor"));
  }

  /** The link follows at rest: browsers limit how often it may change. */
  function writeHash() {
    clearTimeout(resting);
    resting = setTimeout(writeHashNow, 150);
  }

  function writeHashNow() {
    const given = new URLSearchParams();
    state.slots.forEach((slot) => given.append("call", callOf(slot)));
    given.set("show", state.show.join(","));
    given.set("at", state.place.map((each) => each.toFixed(3)).join(","));
    given.set("query", state.query.toFixed(3));
    if (known.live) { given.set("trained", state.trained); given.set("factor", state.factor); }
    history.replaceState(null, "", `#${given}`);
  }

  // the two sources of arrays ----------------------------------------------------------------------------------------

  function configurationOf(slot) {
    return schemeOf(slot).configurations.find((each) => Object.entries(each.options).every(([name, value]) => slot.options[name] === value));
  }

  /** Of the encodings that were computed, the one that has the chosen value and differs least from the others. */
  function nearestComputed(slot, name, value) {
    const score = (each) => Object.entries(each.options).filter(([option, text]) => slot.options[option] === text).length;
    const fitting = schemeOf(slot).configurations.filter((each) => each.options[name] === value);
    return fitting.reduce((best, each) => (best === null || score(each) > score(best) ? each : best), null);
  }

  function fromFile(key) {
    if (arrived.has(key)) return Promise.resolve(arrived.get(key));
    return new Promise((resolve, reject) => {
      waiting.set(key, resolve);
      const script = make("script", { src: `arrays/${key}.js` });
      script.addEventListener("error", () => reject(new Error(`The file arrays/${key}.js is missing. Build the site again: make docs`)));
      document.head.append(script);
    });
  }

  /** Arrays of a file of the site: JSON, compressed by zlib, as base64. */
  async function receive(key, text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const content = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
    arrived.set(key, content);
    waiting.get(key)?.(content);
    waiting.delete(key);
  }

  async function ask(path, values) {
    let answer;
    try {
      answer = await fetch(`${path}?${new URLSearchParams(values)}`);
    } catch {
      throw new Error("The local server does not answer. Start it again: posenc explore");
    }
    const content = await answer.json();
    if (!answer.ok) throw new Error(content.error);
    return content;
  }

  async function pictureOf(slot, name) {
    if (known.live) return ask("picture", { call: callOf(slot), name, trained: state.trained, factor: state.factor });
    const found = configurationOf(slot);
    if (!found) throw new Error("This encoding was not computed for the site. Choose other values, or run: posenc explore");
    return (await fromFile(found.key)).pictures[name];
  }

  async function codeOf(slot) {
    if (known.live) return (await ask("code", { call: callOf(slot) })).code;
    return (await fromFile(configurationOf(slot).key)).code;
  }

  // controls ---------------------------------------------------------------------------------------------------------

  function valuesOf(slot, option) {
    if (known.live) return option.values;
    const computed = new Set(schemeOf(slot).configurations.map((each) => each.options[option.name]));
    return option.values.filter((each) => computed.has(each)).concat([...computed].filter((each) => !option.values.includes(each)));
  }

  function choose(number, option, value) {
    const slot = state.slots[number], before = { ...slot.options };
    if (known.live) slot.options[option.name] = value;
    else {
      const found = nearestComputed(slot, option.name, value);
      if (found) slot.options = { ...found.options };
      const others = Object.keys(before).filter((name) => name !== option.name && before[name] !== slot.options[name]);
      say(others.length ? `Changed too, because only computed encodings are shown: ${others.map((name) => `${name}=${slot.options[name]}`).join(", ")}.` : "");
      if (others.length) fillSlots(`explorer-${number}-${option.name}`);
    }
    update(number);
  }

  function control(number, option) {
    const slot = state.slots[number], values = valuesOf(slot, option), id = `explorer-${number}-${option.name}`, chosen = slot.options[option.name];
    const label = make("label", { for: id }, option.name), box = make("span");
    const field = known.live && option.kind !== "menu" ? make("input", { type: "text", value: chosen, "aria-label": `${option.name}, any value`, spellcheck: "false" }) : null;
    field?.addEventListener("change", () => choose(number, option, field.value.trim()));
    const numbers = values.filter((each) => each !== "" && Number.isFinite(Number(each)));
    if (option.kind === "number" && numbers.length > 2) {
      const at = numbers.reduce((best, each, index) => (Math.abs(Number(each) - Number(chosen)) < Math.abs(Number(numbers[best]) - Number(chosen)) ? index : best), 0);
      const shown = field ?? make("output", { for: id }, chosen);
      const range = make("input", { type: "range", id, min: 0, max: numbers.length - 1, step: 1, value: at, "aria-valuetext": chosen });
      range.addEventListener("input", () => {
        const value = numbers[Number(range.value)];
        range.setAttribute("aria-valuetext", value);
        if (field) field.value = value; else shown.textContent = value;
        choose(number, option, value);
      });
      box.append(range, shown);
    } else {
      const select = make("select", { id }, ...[...new Set([chosen, ...values])].sort((one, two) => values.indexOf(one) - values.indexOf(two)).map((each) => make("option", { value: each, selected: each === chosen }, each === "" ? "default" : each)));
      select.addEventListener("change", () => { if (field) field.value = select.value; choose(number, option, select.value); });
      if (values.length > 1 || !field) box.append(select); else field.id = id;
      if (field) box.append(field);
    }
    return make("div", { class: "explorer-option" }, label, box);
  }

  function fillSlots(focus = "") {
    const slots = state.slots.map((slot, number) => {
      const names = make("select", { id: `explorer-${number}` }, ...Object.entries(known.schemes).map(([name, each]) => make("option", { value: name, selected: name === slot.scheme }, each.label)));
      names.addEventListener("change", () => {
        state.slots[number] = { scheme: names.value, options: startOptions(names.value) };
        say("");
        fillSlots(`explorer-${number}`);
        update(number);
      });
      const code = make("pre", { hidden: true, tabindex: 0 });
      const buttons = make("div", { class: "explorer-buttons" }, make("button", { type: "button", on: { click: () => copyCode(number, code) } }, "Copy the code"));
      if (state.slots.length > 1) buttons.append(make("button", { type: "button", "aria-label": `Remove encoding ${number + 1}`, on: { click: () => { state.slots.splice(number, 1); drawings.splice(number, 1); fillAll(); } } }, "Remove"));
      const controls = schemeOf(slot).options.map((option) => control(number, option));
      return make("fieldset", {}, make("legend", {}, `Encoding ${number + 1}`),
        make("div", { class: "explorer-option" }, make("label", { for: `explorer-${number}` }, "encoding"), make("span", {}, names)),
        ...controls, buttons, code, make("p", { class: "explorer-error", role: "alert", hidden: true }));
    });
    root.querySelector(".explorer-slots").replaceChildren(...slots);
    root.querySelector("[data-do=add]").disabled = state.slots.length >= MOST;
    if (focus) document.getElementById(focus)?.focus();
  }

  async function copy(words, done) {
    try {
      await navigator.clipboard.writeText(words);
      say(done);
    } catch {
      say("The browser refuses the clipboard. Select the text and copy it.");
    }
  }

  async function copyCode(number, shown) {
    try {
      shown.textContent = (await codeOf(state.slots[number])) || "# This declared example has an argument that text cannot hold.";
      shown.hidden = false;
      await copy(shown.textContent, "The code is copied.");
    } catch (error) {
      say(error.message);
    }
  }

  // pictures ---------------------------------------------------------------------------------------------------------

  function dials(picture) {
    const dial = (words, value, change) => {
      const input = make("input", { type: "range", min: 0, max: 1, step: 0.02, value });
      input.addEventListener("input", () => { change(Number(input.value)); redraw(picture.name); writeHash(); });
      return make("label", {}, words, input);
    };
    if (picture.name === "map") return [dial("row of the query", state.place[0], (value) => { state.place[0] = value; }), dial("column of the query", state.place[1], (value) => { state.place[1] = value; })];
    return picture.name === "attention" ? [dial("query", state.query, (value) => { state.query = value; })] : [];
  }

  function fillPictures() {
    const shown = known.pictures.filter((each) => state.show.includes(each.name)).map((each) => {
      const section = make("section", { class: "explorer-picture", "data-picture": each.name }, make("h2", {}, each.title), make("p", {}, each.about), make("div", { class: "explorer-dials" }, ...dials(each)), make("div", { class: "explorer-row" }));
      section.querySelector(".explorer-row").append(...state.slots.map(() => make("div")));
      return section;
    });
    root.querySelector(".explorer-pictures").replaceChildren(...shown);
  }

  function figure(drawing, slot, name) {
    const svg = posencPlots.draw(drawing, state), label = svg.getAttribute("aria-label");
    const title = label.split(/[.;:] /)[0];
    const save = make("button", { type: "button", "aria-label": `Save as SVG: ${drawing.title}` }, "SVG");
    save.addEventListener("click", () => {
      const link = make("a", { href: URL.createObjectURL(new Blob([posencPlots.file(svg)], { type: "image/svg+xml" })), download: `${schemeOf(slot).label}-${name}.svg` });
      link.click();
      URL.revokeObjectURL(link.href);
    });
    if (drawing.form === "map") drag(svg);
    return make("figure", {}, make("figcaption", {}, make("span", {}, title.length > 90 ? drawing.title : title), save), svg);
  }

  function drag(svg) {
    svg.classList.add("draggable");
    svg.addEventListener("pointerdown", (start) => {
      const box = svg.getBoundingClientRect(), units = svg.viewBox.baseVal.width / box.width;
      const move = (event) => {
        const place = svg.turnBy ? svg.turnBy((event.clientX - start.clientX) * units, (event.clientY - start.clientY) * units) : svg.placeOf((event.clientX - box.left) * units, (event.clientY - box.top) * units);
        state.place = place.map((each) => Math.min(1, Math.max(0, each)));
        const inputs = root.querySelectorAll("[data-picture=map] .explorer-dials input");
        inputs.forEach((input, index) => { input.value = state.place[index]; });
        redraw("map");
      };
      const stop = () => { removeEventListener("pointermove", move); writeHash(); };
      addEventListener("pointermove", move);
      addEventListener("pointerup", stop, { once: true });
      addEventListener("pointercancel", stop, { once: true });
      if (svg.placeOf) move(start);
      start.preventDefault();
    });
  }

  function drawCell(number, name) {
    const cell = root.querySelector(`[data-picture=${name}] .explorer-row`)?.children[number], found = drawings[number]?.[name];
    if (!cell || !found) return;
    const slot = state.slots[number], call = make("p", { class: "explorer-call" }, callOf(slot, true));
    const content = found.absent ? [make("p", { class: "explorer-absent" }, found.absent)] : found.drawings.map((each) => figure(each, slot, name));
    cell.replaceChildren(call, ...content);
  }

  const redraw = (name) => state.slots.forEach((_, number) => drawCell(number, name));

  /** Compute and draw all shown pictures of one encoding. While one is computed, later changes wait for it. */
  async function update(number) {
    const slot = state.slots[number];
    slot.turn = (slot.turn ?? 0) + 1;
    root.querySelectorAll(".explorer-slots pre")[number].hidden = true;  // the code of the values before
    writeHash();
    if (slot.running) return;
    slot.running = true;
    for (let turn = -1; turn !== slot.turn;) {
      turn = slot.turn;
      await drawAll(slot, turn);
    }
    slot.running = false;
  }

  async function drawAll(slot, turn) {
    const at = () => state.slots.indexOf(slot), alert = () => root.querySelectorAll(".explorer-error")[at()];
    for (const { name } of known.pictures.filter((each) => state.show.includes(each.name))) {
      let found, trouble = "";
      try {
        found = await pictureOf(slot, name);
      } catch (error) {
        trouble = error.message;
      }
      if (slot.turn !== turn || at() < 0) return;
      alert().textContent = trouble;
      alert().hidden = !trouble;
      if (trouble) {
        drawings[at()] = {};
        root.querySelectorAll(".explorer-row").forEach((row) => row.children[at()].replaceChildren());
        return;
      }
      (drawings[at()] ??= {})[name] = found;
      drawCell(at(), name);
    }
  }

  function fillAll() {
    fillSlots();
    fillPictures();
    state.slots.forEach((_, number) => update(number));
  }

  function start(content) {
    root = document.getElementById("posenc-explorer");
    known = content;
    readHash();
    const boxes = known.pictures.map((each) => {
      const box = make("input", { type: "checkbox", checked: state.show.includes(each.name) });
      box.addEventListener("change", () => {
        state.show = known.pictures.map((one) => one.name).filter((one) => (one === each.name ? box.checked : state.show.includes(one)));
        fillPictures();
        state.slots.forEach((_, number) => update(number));
      });
      return make("label", {}, box, ` ${each.title}`);
    });
    root.querySelector(".explorer-show").append(...boxes);
    root.querySelector("[data-do=add]").addEventListener("click", () => { state.slots.push({ scheme: state.slots[0].scheme, options: { ...state.slots[0].options } }); fillAll(); });
    root.querySelector("[data-do=link]").addEventListener("click", () => { writeHashNow(); copy(location.href, "The link is copied."); });
    root.querySelector(".explorer-stretch").hidden = !known.live;
    root.querySelectorAll(".explorer-stretch input").forEach((input) => {
      input.value = state[input.name];
      input.addEventListener("change", () => { state[input.name] = Number(input.value); state.slots.forEach((_, number) => update(number)); });
    });
    addEventListener("hashchange", () => { readHash(); fillAll(); });
    fillAll();
  }

  return { start, receive };
})();
