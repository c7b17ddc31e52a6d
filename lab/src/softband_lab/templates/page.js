"use strict";
const specs = JSON.parse(document.getElementById("specs").textContent);
const views = new Map();      // chart id -> vega view, once drawn
const hidden = new Map();     // figure -> names of its hidden curves

function hiddenOf(figure) { return hidden.get(figure) || []; }

async function draw(box) {
  if (box.dataset.drawn) return;
  box.dataset.drawn = "yes";
  const result = await vegaEmbed(box, specs[box.id], { actions: false, renderer: "svg", tooltip: { theme: "light" } });
  views.set(box.id, result.view);
  await hide(box);
}

async function hide(box) {
  const view = views.get(box.id);
  const names = box.dataset.figure ? hiddenOf(box.dataset.figure) : [];
  if (view && names.length + (box.dataset.hid ? 1 : 0)) {
    box.dataset.hid = "yes";
    await view.signal("hidden", names).runAsync();
  }
}

// Charts in sight are drawn at once, the others one by one: dozens together would stall the page.
const boxes = [...document.querySelectorAll(".chart[id]")];
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
}, { rootMargin: "300px" });
boxes.forEach((box) => observer.observe(box));
async function drawRest() {
  for (const box of boxes) {
    await draw(box);
    await new Promise((resume) => setTimeout(resume, 0));
  }
}
window.addEventListener("load", drawRest);

document.querySelectorAll(".legend").forEach((legend) => {
  const figure = legend.dataset.figure;
  legend.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const shown = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!shown));
    const off = [...legend.querySelectorAll("button[aria-pressed=false]")].map((b) => b.dataset.curve);
    hidden.set(figure, off);
    boxes.filter((box) => box.dataset.figure === figure).forEach(hide);
  });
});

function sortKey(cell) {
  const text = cell.dataset.sort !== undefined ? cell.dataset.sort : cell.textContent.trim();
  const number = parseFloat(text);
  return /^-?[\d.]+$/.test(text) ? number : text;
}

document.querySelectorAll("table.sortable").forEach((table) => {
  table.querySelectorAll("th").forEach((head, column) => head.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [sortKey(row.cells[column]), row]);
    rows.sort(([a], [b]) => {
      if (a === "" || b === "") return a === b ? 0 : a === "" ? 1 : -1;   // rows without a value stay last
      const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
      return down ? -order : order;
    });
    rows.forEach(([, row]) => body.appendChild(row));
  }));
});

document.querySelectorAll(".filters").forEach((filters) => {
  filters.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    filters.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
    const wanted = button.dataset.verdict;
    document.querySelectorAll("#claims-table tbody tr").forEach((row) => {
      row.hidden = wanted !== "" && row.dataset.verdict !== wanted;
    });
  });
});
