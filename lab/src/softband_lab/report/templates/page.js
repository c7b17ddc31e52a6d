"use strict";
// What an element of a chart is of: under the mouse, or under the finger.
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
document.body.appendChild(tip);
function showTip(event) {
  const found = event.target.closest ? event.target.closest("[data-tip]") : null;
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = found.dataset.tip;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, window.innerWidth - box.width - 8)) + "px";
  tip.style.top = (event.clientY + box.height + 24 > window.innerHeight ? event.clientY - box.height - 12 : event.clientY + 14) + "px";
}
document.addEventListener("pointermove", showTip);
document.addEventListener("pointerdown", showTip);

// A legend's buttons hide and show a curve, with its published points, in every chart of its card.
document.querySelectorAll(".legend").forEach((legend) => {
  const card = legend.closest(".card");
  legend.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const shown = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!shown));
    card.querySelectorAll("svg.chart [data-curve]").forEach((group) => {
      if (group.dataset.curve === button.dataset.curve) group.style.display = shown ? "none" : "";
    });
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
    const { key, value } = button.dataset;
    document.querySelectorAll("#claims-table tbody tr").forEach((row) => {
      row.hidden = value !== "" && row.dataset[key] !== value;
    });
  });
});
