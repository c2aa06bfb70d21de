"use strict";
// Sections come as HTML in which the server has escaped whatever a client may be called. Only those that changed are replaced;
// what a reader has opened, scrolled or focused stays so.
const main = document.getElementById("main");
const link = document.getElementById("link");
const shown = new Map();

function say(text, lost) {
  if (link.textContent !== text) link.textContent = text;
  link.classList.toggle("lost", lost);
}

function replace(section, html) {
  const open = [...section.querySelectorAll("details[open]")].map((part) => part.id);
  const scrolled = [...section.querySelectorAll(".scroll")].map((part) => [part.id, part.scrollLeft]);
  const active = section.contains(document.activeElement) ? document.activeElement : null;
  const focused = active && (active.id || (active.closest("details") || {}).id);
  section.innerHTML = html;
  for (const id of open) {
    const part = document.getElementById(id);
    if (part) part.open = true;
  }
  for (const [id, left] of scrolled) {
    const part = document.getElementById(id);
    if (part) part.scrollLeft = left;
  }
  const again = focused && document.getElementById(focused);
  if (again) (again.matches("details") ? again.querySelector("summary") : again).focus({ preventScroll: true });
}

function show(parts) {
  const names = parts.map(([name]) => name);
  for (const section of [...main.children]) {
    if (!names.includes(section.id)) {
      shown.delete(section.id);
      section.remove();
    }
  }
  parts.forEach(([name, html], place) => {
    let section = document.getElementById(name);
    if (!section) {
      section = document.createElement("section");
      section.id = name;
    }
    if (main.children[place] !== section) main.insertBefore(section, main.children[place] || null);
    if (shown.get(name) !== html) {
      shown.set(name, html);
      replace(section, html);
    }
  });
}

const source = new EventSource(document.body.dataset.events);
source.addEventListener("message", (event) => {
  show(JSON.parse(event.data));
  say("Live: this page changes by itself.", false);
});
source.addEventListener("error", () => {
  const ended = source.readyState === EventSource.CLOSED;
  say(ended ? "The connection was refused. Load the page again." : "The connection is lost; trying again.", true);
});
