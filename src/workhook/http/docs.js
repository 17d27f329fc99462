"use strict";
// Shows /openapi.json. Every text goes in as textContent, so nothing in the document can become markup.

const METHODS = ["get", "post", "put", "patch", "delete"];
const narrow = matchMedia("(max-width: 60rem)");
const MANY = 12; // values that are shown before the rest folds
let api;

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function resolve(thing) {
  if (!thing || !thing.$ref) return thing || {};
  let found = api;
  for (const part of thing.$ref.replace("#/", "").split("/")) found = found[part.replace(/~1/g, "/").replace(/~0/g, "~")];
  const { $ref, ...beside } = thing;
  return { ...resolve(found), ...beside };
}

// Paragraphs with `code`, **bold** and nothing else.
function text(source) {
  const box = make("div", { class: "text" });
  for (const paragraph of (source || "").split(/\n{2,}/)) {
    const p = make("p");
    for (const part of paragraph.split(/(`[^`]+`|\*\*[^*]+\*\*)/)) {
      if (part.startsWith("`")) p.append(make("code", {}, part.slice(1, -1)));
      else if (part.startsWith("**")) p.append(make("strong", {}, part.slice(2, -2)));
      else p.append(part);
    }
    if (paragraph) box.append(p);
  }
  return box;
}

function about(source) {
  const box = text(source);
  box.className = "about";
  return source ? box : null;
}

// --- schemas

function typeOf(given, refName = given && given.$ref) {
  const schema = resolve(given);
  if (schema.type === "array") return `array of ${typeOf(schema.items || {})}`;
  const options = schema.anyOf || schema.oneOf;
  if (options && !schema.type) return options.map((each) => typeOf(each)).join(" or ");
  if (refName) return refName.split("/").pop();
  const enumerated = schema.enum && [...new Set(schema.enum.map((each) => (each === null ? "null" : typeof each)))];
  const kinds = [].concat(schema.type || enumerated || "anything");
  return kinds.join(" or ") + (schema.format ? ` (${schema.format})` : "");
}

function limits(schema) {
  const found = [];
  const { minimum, maximum, minLength, maxLength } = schema;
  const range = (low, high, unit) => (high === undefined ? `at least ${low}${unit}` : low === undefined ? `at most ${high}${unit}` : `${low} to ${high}${unit}`);
  if (minimum !== undefined || maximum !== undefined) found.push(range(minimum, maximum, ""));
  if (minLength > 1 || maxLength !== undefined) found.push(range(minLength, maxLength, " characters"));
  else if (minLength) found.push("not empty");
  if (schema.pattern) found.push(`matches ${schema.pattern}`);
  if (schema.maxItems !== undefined) found.push(`at most ${schema.maxItems} items`);
  if (schema.maxProperties !== undefined) found.push(`at most ${schema.maxProperties} properties`);
  if (schema.default !== undefined) found.push(`default ${JSON.stringify(schema.default)}`);
  return found.join(" · ");
}

function values(schema) {
  const items = resolve(schema.items);
  const all = schema.enum || items.enum || (schema.const !== undefined ? [schema.const] : null);
  if (!all) return null;
  const codes = (list) => list.flatMap((value) => [make("code", {}, JSON.stringify(value)), " "]);
  const shown = make("div", { class: "values" }, "One of: ", ...codes(all.slice(0, MANY)));
  if (all.length <= MANY) return shown;
  const more = make("details", { class: "fold" }, make("summary", {}, `${all.length - MANY} more`));
  more.append(make("div", { class: "values" }, ...codes(all.slice(MANY))));
  return make("div", {}, shown, more);
}

// What the schema holds: the properties of an object, of the items of an array, or of each option.
function inner(given, seen) {
  const schema = resolve(given);
  if (given && given.$ref && seen.includes(given.$ref)) return null;
  const path = given && given.$ref ? [...seen, given.$ref] : seen;
  if (schema.properties && Object.keys(schema.properties).length) return properties(schema, path);
  if (schema.items) return inner(schema.items, path);
  const found = (schema.anyOf || schema.oneOf || []).map((each) => inner(each, path)).filter(Boolean);
  return found.length ? make("div", {}, ...found) : null;
}

function property(name, given, required, seen) {
  const schema = resolve(given);
  const line = make("li", {}, make("span", { class: "name" }, name), make("span", { class: "type" }, typeOf(given)));
  if (required) line.append(make("span", { class: "flag" }, "required"));
  line.append(...[about(schema.description), values(schema)].filter(Boolean));
  const bounds = limits(schema);
  if (bounds) line.append(make("div", { class: "type" }, bounds));
  const nested = inner(given, seen);
  if (nested) {
    const fold = make("details", { class: "fold" }, make("summary", {}, `Fields of ${name}`), nested);
    fold.open = seen.length < 2;
    line.append(fold);
  }
  return line;
}

function properties(schema, seen) {
  const required = new Set(schema.required || []);
  const list = make("ul", { class: "props" });
  for (const [name, each] of Object.entries(schema.properties)) list.append(property(name, each, required.has(name), seen));
  return list;
}

function schemaBox(given) {
  const schema = resolve(given);
  const type = make("p", { class: "type" }, typeOf(given));
  return make("div", {}, type, about(schema.description), inner(given, []) || values(schema));
}

// An example that fits: what is required, and what has an example of its own.
function sample(given, depth = 0) {
  const schema = resolve(given);
  if (schema.examples) return schema.examples[0];
  for (const key of ["const", "default"]) if (schema[key] !== undefined) return schema[key];
  if (schema.enum) return schema.enum[0];
  const options = schema.anyOf || schema.oneOf;
  if (options && !schema.properties) return sample(options[0], depth);
  switch ([].concat(schema.type)[0]) {
    case "object": {
      const made = {};
      for (const [name, each] of Object.entries(schema.properties || {})) {
        const wanted = (schema.required || []).includes(name) || resolve(each).examples;
        if (wanted && depth < 4) made[name] = sample(each, depth + 1);
      }
      return made;
    }
    case "array": return depth < 4 && schema.items ? [sample(schema.items, depth + 1)] : [];
    case "integer": case "number": return schema.minimum ?? 0;
    case "boolean": return true;
    case "string": return { "date-time": "2026-11-20T09:00:00Z", uri: "https://example.com/" }[schema.format] ?? "text";
    default: return null;
  }
}

// --- operations

const quote = (value) => `'${String(value).replace(/'/g, "'\\''")}'`;

function curl({ method, path, operation }) {
  const example = (parameter) => parameter.schema && parameter.schema.examples && parameter.schema.examples[0];
  const known = Object.fromEntries(parametersOf(operation).map((each) => [each.name, example(each)]));
  const address = path.replace(/\{(\w+)\}/g, (whole, name) => known[name] ?? name.toUpperCase());
  const parts = [`curl${method === "get" ? "" : ` -X ${method.toUpperCase()}`} ${quote(api.servers[0].url + address)}`];
  if ((operation.security || []).length) parts.push(`-H "Authorization: Bearer $TOKEN"`);
  const { "application/json": body, "multipart/form-data": form } = resolve(operation.requestBody).content || {};
  if (form) parts.push("-F 'file=@picture.png'");
  if (body) parts.push(`-H 'Content-Type: application/json'`, `-d ${quote(JSON.stringify(sample(body.schema)))}`);
  return parts.join(" \\\n  ");
}

function copied(source) {
  const button = make("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(source);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it to copy"; // a page that did not come by HTTPS or from localhost
    }
  });
  return make("div", { class: "copied" }, make("pre", { tabindex: "0" }, source), button);
}

const parametersOf = (operation) => (operation.parameters || []).map(resolve);
const json = (value) => make("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));

function parameterList(operation) {
  const nodes = [];
  for (const place of ["path", "query", "header"]) {
    const found = parametersOf(operation).filter((each) => each.in === place);
    if (!found.length) continue;
    const list = make("ul", { class: "props" });
    for (const { name, schema, content, required, description } of found) {
      const shown = resolve(schema || content["application/json"].schema);
      const said = [description || shown.description, content && "Written as JSON."].filter(Boolean).join(" ");
      list.append(property(name, { ...shown, description: said }, required, []));
    }
    nodes.push(make("h4", {}, `${place} parameters`), list);
  }
  return nodes;
}

function answer(status, given) {
  const response = resolve(given);
  const kind = status < 300 ? "ok" : status < 400 ? "off" : "bad";
  const summary = make("summary", {}, make("span", { class: `status ${kind}` }, status));
  summary.append(...text(response.description).firstChild.childNodes);
  const box = make("div");
  for (const [type, { schema, examples }] of Object.entries(response.content || {})) {
    box.append(make("h4", {}, type), schemaBox(schema));
    for (const [name, { value }] of Object.entries(examples || {})) box.append(make("h4", {}, `Example: ${name}`), json(value));
  }
  const headers = Object.entries(response.headers || {});
  if (headers.length) {
    const list = make("ul", { class: "props" });
    for (const [name, each] of headers) {
      const { schema, description } = resolve(each);
      list.append(property(name, { ...schema, description }, false, []));
    }
    box.append(make("details", { class: "fold" }, make("summary", {}, "Headers"), list));
  }
  return make("details", { class: "answer" }, summary, box);
}

function body(operation) {
  if (!operation.requestBody) return [];
  const { content, required } = resolve(operation.requestBody);
  return Object.entries(content).flatMap(([type, { schema }]) => [
    make("h4", {}, `Body · ${type}${required ? " · required" : ""}`), schemaBox(schema),
    make("details", { class: "fold" }, make("summary", {}, "Example"), json(sample(schema))),
  ]);
}

function fill(entry, box) {
  const { operation } = entry;
  if (operation.description) box.append(text(operation.description));
  box.append(make("h4", {}, "Try it"), copied(curl(entry)), ...parameterList(operation), ...body(operation));
  box.append(make("h4", {}, "Answers"));
  for (const [status, each] of Object.entries(operation.responses)) box.append(answer(status, each));
}

function card(entry) {
  const { method, path, operation } = entry;
  const anchor = make("a", { class: "anchor", href: `#${operation.operationId}`, "aria-label": `Link to ${operation.summary}` }, "#");
  const head = make("summary", {}, make("span", { class: `method ${method}` }, method), make("h3", { class: "path" }, path),
    make("span", { class: "summary" }, operation.summary), operation.deprecated ? make("span", { class: "flag" }, "deprecated") : "", anchor);
  const box = make("div", { class: "inside" });
  entry.card = make("details", { class: "op", id: operation.operationId }, head, box);
  entry.card.addEventListener("toggle", () => entry.card.open && !box.firstChild && fill(entry, box)); // many are never opened
  return entry.card;
}

function link(entry) {
  const { method, operation } = entry;
  const inside = [make("span", { class: `method ${method}` }, method), make("span", {}, operation.summary)];
  entry.link = make("a", { href: `#${operation.operationId}` }, ...inside);
  return make("li", {}, entry.link);
}

function entries() {
  return Object.entries(api.paths).flatMap(([path, item]) => METHODS.filter((method) => item[method]).map((method) => {
    const operation = item[method];
    const words = [method, path, operation.operationId, operation.summary, ...(operation.tags || [])].join(" ").toLowerCase();
    return { method, path, operation, words };
  }));
}

function show(all) {
  const groups = [];
  for (const { name, description } of api.tags) {
    const mine = all.filter(({ operation }) => operation.tags[0] === name);
    const section = make("section", {}, make("h2", {}, name), text(description), ...mine.map(card));
    const list = make("div", {}, make("h2", {}, name), make("ul", {}, ...mine.map(link)));
    document.getElementById("operations").append(section);
    document.getElementById("nav").append(list);
    groups.push({ mine, section, list });
  }
  return groups;
}

function filter(groups, wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { mine, section, list } of groups) {
    let found = 0;
    for (const entry of mine) {
      const fits = words.every((word) => entry.words.includes(word));
      entry.card.hidden = entry.link.parentNode.hidden = !fits;
      found += fits;
    }
    section.hidden = list.hidden = !found;
    count += found;
  }
  document.getElementById("count").textContent = words.length ? `${count} operations fit.` : `${count} operations.`;
}

function follow(all) {
  const wanted = decodeURIComponent(location.hash.slice(1));
  for (const entry of all) {
    const here = entry.operation.operationId === wanted;
    if (here) entry.link.setAttribute("aria-current", "true");
    else entry.link.removeAttribute("aria-current");
    if (!here) continue;
    entry.card.open = true;
    if (narrow.matches) document.getElementById("list").open = false; // it would stand before what was chosen
    entry.card.scrollIntoView();
    entry.link.scrollIntoView({ block: "nearest" });
    entry.card.querySelector("summary").focus({ preventScroll: true });
  }
}

function theme() {
  const button = document.getElementById("theme");
  const stored = (name, value) => {
    try { return value === undefined ? localStorage.getItem(name) : localStorage.setItem(name, value); } catch { return null; }
  };
  const set = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.setAttribute("aria-pressed", dark);
  };
  set((stored("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark");
  button.addEventListener("click", () => {
    const dark = button.getAttribute("aria-pressed") !== "true";
    set(dark);
    stored("theme", dark ? "dark" : "light");
  });
}

function keys(input) {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape" && event.target === input) {
      input.value = "";
      input.dispatchEvent(new Event("input"));
    }
  });
}

async function start() {
  theme();
  const input = document.getElementById("filter");
  keys(input);
  const list = document.getElementById("list");
  const fold = () => { list.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  const intro = document.getElementById("intro");
  try {
    const response = await fetch("/openapi.json");
    if (!response.ok) throw new Error(`/openapi.json answered ${response.status}`);
    api = await response.json();
  } catch (error) {
    intro.replaceChildren(make("p", { class: "error" }, `The document could not be read: ${error.message}. Reload the page to try again.`));
    return;
  }
  document.getElementById("version").textContent = api.info.version;
  intro.replaceChildren(text(api.info.description));
  const all = entries();
  const groups = show(all);
  const apply = () => filter(groups, input.value);
  input.addEventListener("input", apply);
  apply();
  addEventListener("hashchange", () => follow(all));
  follow(all);
}

start();
