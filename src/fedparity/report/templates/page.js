"use strict";
// A page reads without this. What is added: tables that sort, clients that are searched, values under the pointer.
// Whatever a page was made from is put in as text, never as markup.
const make = (tag, said = "", kind = "") => Object.assign(document.createElement(tag), { textContent: said, className: kind });

// Unknown values come last, whichever way a column is sorted.
function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null);
  const found = typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b), "en", { numeric: true }) : a - b;
  return down ? -found : found;
}
function sortable(table, sort) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const button = make("button", "", "sort");
    button.type = "button";
    if (head.querySelector("a")) button.setAttribute("aria-label", "Sort by " + head.textContent.trim());
    else button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : place > 0;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(place, down);
    });
  });
}
function valueOf(cell) {
  const said = (cell.querySelector("data")?.value ?? cell.textContent).trim();
  if (said === "" || said === "–") return null;
  const number = /^[−-]?[\d.,]+(e[−-]?\d+)?/.exec(said);
  return number ? Number(number[0].replaceAll(",", "").replaceAll("−", "-")) : said;
}
for (const table of document.querySelectorAll("table.sorts"))
  sortable(table, (place, down) => {
    const body = table.tBodies[0], rows = [...body.rows].map(row => [valueOf(row.cells[place]), row]);
    body.append(...rows.sort((a, b) => compare(a[0], b[0], down)).map(row => row[1]));
  });

// All clients: the rows on the page are the first of those in the data beside it.
const PAGE = 25;
for (const table of document.querySelectorAll("table[data-from]")) {
  const held = JSON.parse(document.getElementById(table.dataset.from).textContent);
  const tools = document.getElementById(table.dataset.tools), status = tools.querySelector("[role=status]");
  const [search, kind] = ["input", "select"].map(tag => tools.querySelector(tag));
  const [before, next] = tools.querySelectorAll("button");
  const names = held.names.map(name => name.toLowerCase());
  let place = -1, down = false, page = 0;
  const columns = () => [...held.columns, ...(held.kinds.length ? held.kinds[kind ? kind.selectedIndex : 0].columns : [])];
  const format = column => value =>
    value === null ? "–" : typeof value === "string" ? value
      : column.digits === null && value !== 0 && Math.abs(value) < 1e-4 ? value.toExponential(1).replaceAll("-", "−")
      : value.toLocaleString("en", column.digits === null ? { maximumSignificantDigits: 3 }
        : { minimumFractionDigits: column.digits, maximumFractionDigits: column.digits }).replace("-", "−");
  function show() {
    const shown = columns(), wanted = search.value.trim().toLowerCase();
    const found = names.flatMap((name, at) => name.includes(wanted) ? [at] : []);
    const keys = place < 0 ? null : place === 0 ? held.names : shown[place - 1].values;
    if (keys) found.sort((a, b) => compare(keys[a], keys[b], down) || a - b);
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    const says = shown.map(format);
    table.tBodies[0].replaceChildren(...found.slice(page * PAGE, page * PAGE + PAGE).map(at => {
      const row = make("tr"), name = make("td");
      name.append(make("bdi", held.names[at]));
      row.append(name, ...shown.map((column, c) => make("td", says[c](column.values[at]))));
      return row;
    }));
    const count = number => number.toLocaleString("en");
    status.textContent = `${count(found.length)} of ${count(names.length)} clients, page ${count(page + 1)} of ${count(pages)}`;
    before.disabled = page === 0;
    next.disabled = page === pages - 1;
  }
  sortable(table, (at, way) => { [place, down, page] = [at, way, 0]; show(); });
  for (const one of [search, kind]) one?.addEventListener("input", () => { page = 0; show(); });
  before.addEventListener("click", () => { page -= 1; show(); });
  next.addEventListener("click", () => { page += 1; show(); });
  tools.hidden = false;
  for (const one of document.querySelectorAll(".unscripted")) one.hidden = true;
  show();
}

// Values under the pointer, or stepped through by arrow keys.
const tip = make("div", "", "tip");
tip.hidden = true;
tip.setAttribute("role", "status");
document.body.append(tip);
function say(head, lines, left, top) {
  tip.replaceChildren(make("b", head), ...lines.map(([name, value, kind]) => {
    const line = make("span", "", kind);
    line.append(make("bdi", name), make("i", value));
    return line;
  }));
  tip.hidden = false;
  const width = tip.offsetWidth, beside = left + 16 + width > innerWidth ? left - 16 - width : left + 16;
  tip.style.left = Math.max(4, beside) + "px";
  tip.style.top = Math.max(4, Math.min(top + 12, innerHeight - tip.offsetHeight - 4)) + "px";
}
const lists = new WeakMap();
function linesOf(chart) {
  if (!lists.has(chart)) {
    const lines = [...chart.querySelectorAll("[data-y]")].map(path => {
      const x = path.dataset.x.split(" ").map(Number), y = path.dataset.y.split(" ");
      return { name: path.dataset.name, kind: path.getAttribute("class"), values: new Map(x.map((at, k) => [at, y[k]])) };
    });
    lists.set(chart, { lines, all: [...new Set(lines.flatMap(line => [...line.values.keys()]))].sort((a, b) => a - b) });
  }
  return lists.get(chart);
}
let rule = null, at = 0;
function hide() {
  tip.hidden = true;
  rule?.remove();
  rule = null;
}
function point(chart, place, top) {
  const { lines, all } = linesOf(chart), [low, high, start, end] = chart.dataset.across.split(" ").map(Number);
  at = Math.min(Math.max(place, 0), all.length - 1);
  const x = start + (all[at] - low) / (high - low) * (end - start), box = chart.getBoundingClientRect();
  rule?.remove();
  rule = document.createElementNS("http://www.w3.org/2000/svg", "path");
  rule.setAttribute("class", "rule");
  rule.setAttribute("d", `M${x} 8V${chart.viewBox.baseVal.height - 44}`);
  chart.append(rule);
  const value = said => parseFloat(said.replaceAll(",", "").replace("−", "-"));
  const said = lines.filter(line => line.values.has(all[at])).map(line => [line.name, line.values.get(all[at]), line.kind]);
  said.sort((a, b) => value(b[1]) - value(a[1]));
  const unit = chart.dataset.unit;
  const head = unit === "%" ? `${(100 * all[at]).toFixed(0)}\u202f% of clients` : `${unit} ${all[at].toLocaleString("en")}`;
  say(head, said, box.left + x * box.width / chart.viewBox.baseVal.width, top ?? box.top);
}
const STATES = { there: "online, not asked", served: "asked, update arrived", failed: "asked in vain" };
function sayRow(row, left, top) { say(row.dataset.name, JSON.parse(row.dataset.says).map(([name, value]) => [name, value, ""]), left, top); }
function hover(event) {
  const row = event.target.closest?.("[data-says]");
  if (row) { sayRow(row, event.clientX, event.clientY); return; }
  const chart = event.target.closest?.("svg[data-across], svg[data-rows]");
  if (!chart) { hide(); return; }
  const box = chart.getBoundingClientRect(), view = chart.viewBox.baseVal;
  const x = (event.clientX - box.left) / box.width * view.width, y = (event.clientY - box.top) / box.height * view.height;
  if (chart.dataset.rows) {
    const names = JSON.parse(chart.dataset.rows), wide = Number(chart.dataset.wide);
    const name = names[Math.min(Math.floor(y), names.length - 1)], first = Number(chart.dataset.first) + Math.floor(x) * wide;
    if (name === undefined) return;
    const state = STATES[event.target.getAttribute("class")] ?? "offline";
    say(wide > 1 ? `rounds ${first} to ${first + wide - 1}` : `round ${first}`, [[name, state, ""]], event.clientX, event.clientY);
  } else {
    const { all } = linesOf(chart), [low, high, start, end] = chart.dataset.across.split(" ").map(Number);
    const wanted = low + (x - start) / (end - start) * (high - low);
    point(chart, all.reduce((best, one, k) => Math.abs(one - wanted) < Math.abs(all[best] - wanted) ? k : best, 0), event.clientY);
  }
}
document.addEventListener("pointermove", hover);
document.addEventListener("pointerdown", hover);
document.addEventListener("scroll", hide, { passive: true });
document.addEventListener("focusin", event => {
  const box = event.target.getBoundingClientRect();
  if (event.target.matches("[data-says]:focus-visible")) sayRow(event.target, box.left, box.top);
  if (event.target.matches("svg[data-across]:focus-visible")) point(event.target, linesOf(event.target).all.length - 1);
});
document.addEventListener("focusout", hide);
document.addEventListener("keydown", event => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step && event.target.matches("svg[data-across]")) { event.preventDefault(); point(event.target, at + step); }
  if (event.key === "Escape") hide();
});
// Charts that are put in place later are made ready by calling this again.
function equip() {
  for (const row of document.querySelectorAll("[data-says]")) {
    row.setAttribute("tabindex", "0");
    row.setAttribute("role", "img");
    row.closest("svg").setAttribute("role", "group");
    row.setAttribute("aria-label", row.dataset.name + ": " + JSON.parse(row.dataset.says).map(said => said.join(" ")).join(", "));
  }
  for (const chart of document.querySelectorAll("svg[data-across], svg[data-rows]")) {
    if (chart.dataset.across) chart.setAttribute("tabindex", "0");
    // Browsers show a title as a tip of their own, above ours: to readers it is said by a label instead.
    const said = [...chart.children].filter(part => /^(title|desc)$/.test(part.tagName)).map(part => part.textContent);
    if (said.length > 1) chart.setAttribute("aria-label", said.join(". "));
    for (const title of chart.querySelectorAll("title")) title.remove();
  }
}
equip();
