"use strict";
// The search of the catalogue: rows with all words stay, kinds without rows go.
const field = document.getElementById("words");
if (field) {
  field.closest("p").hidden = false;
  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    document.querySelectorAll("section.kind").forEach((kind) => {
      let here = 0;
      kind.querySelectorAll("tbody tr").forEach((row) => {
        const text = (kind.id + " " + row.textContent).toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        here += row.hidden ? 0 : 1;
      });
      kind.hidden = here === 0;
      count += here;
    });
    document.getElementById("found").textContent = words.length ? count + " parts" : "";
  };
  field.addEventListener("input", search);
  search();
}
