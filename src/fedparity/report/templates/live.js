"use strict";
// The page is whole without this: it only asks for itself again and puts the parts marked data-live in place.
let asked = 0, timer = 0, wanted = location.href;
async function show(address) {
  const mine = ++asked;
  wanted = address;  // news that come before the answer ask for this, and not for what was left
  let text;
  try {
    const answer = await fetch(address);
    if (!answer.ok) return;
    text = await answer.text();
  } catch { return; }
  if (mine !== asked) return;
  const next = new DOMParser().parseFromString(text, "text/html");
  const focused = document.activeElement && document.activeElement.id;
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = next.getElementById(part.id);
    if (fresh) part.replaceChildren(...fresh.childNodes);
  }
  equip();
  if (focused && document.activeElement.id !== focused) document.getElementById(focused)?.focus();
  history.replaceState(null, "", address);
}
document.addEventListener("click", event => {
  const link = event.target.closest("a[data-soft]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  show(link.href);
});
const form = document.querySelector("form");
function search() {
  const here = new URL(wanted);
  for (const [key, value] of new FormData(form)) here.searchParams.set(key, value);
  here.searchParams.set("page", "1");
  show(here.href);
}
if (form) {
  form.addEventListener("submit", event => { event.preventDefault(); search(); });
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 150); });
}
const line = document.getElementById("line"), stamp = document.querySelector("header").dataset.version;
const source = new EventSource("/events" + location.search);
source.onopen = () => { line.textContent = ""; };
source.onerror = () => { line.textContent = "The connection is lost: this is what was last known."; };
source.onmessage = event => { if (event.data !== stamp || asked) show(wanted); };
