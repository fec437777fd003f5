"use strict";

// Sort a table by a click on a column's name: first the better way round, then the other.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const first = head.dataset.first || "ascending";
      const second = first === "ascending" ? "descending" : "ascending";
      const order = before === first ? second : first;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const value = (row) => row.cells[column].dataset.v;
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (x === "" || y === "") return (x === "") - (y === ""); // what has no value stays below
        const [p, q] = [Number(x), Number(y)];
        return sign * (Number.isNaN(p) || Number.isNaN(q) ? x.localeCompare(y) : p - q);
      });
      body.append(...rows);
    });
  });
}

// Show and hide the curves of one entry.
for (const button of document.querySelectorAll(".key button")) {
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    for (const part of document.querySelectorAll(`svg .e${button.dataset.entry}`)) part.classList.toggle("off", !shown);
  });
}

// The value under the pointer.
const tip = document.getElementById("tip");
function point(event) {
  const text = event.target.dataset && event.target.dataset.tip;
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  const left = Math.min(Math.max(event.clientX - box.width / 2, 8), innerWidth - box.width - 8);
  const above = event.clientY - box.height - 14;
  tip.style.left = `${left}px`;
  tip.style.top = `${above < 8 ? event.clientY + 18 : above}px`;
}
document.addEventListener("pointerover", point);
document.addEventListener("pointerdown", point);
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
