"use strict";
const byId = id => document.getElementById(id);
const say = text => { byId("said").textContent = text; };

// Every word of a heading becomes a button that sorts. Rows without a value stay last.
const collator = new Intl.Collator("en", {numeric: true});
for (const table of document.querySelectorAll("table[data-sort]")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((th, at) => {
    const button = document.createElement("button"), name = th.textContent;
    button.type = "button"; button.textContent = name; th.replaceChildren(button);
    th.setAttribute("aria-sort", th.dataset.sorted || "none");
    button.addEventListener("click", () => {
      const isNumber = th.classList.contains("num"), was = th.getAttribute("aria-sort");
      const down = was === "none" ? isNumber : was === "ascending", sign = down ? -1 : 1;
      const value = ({cells: {[at]: cell}}) => isNumber ? parseFloat(cell.dataset.v) : cell.dataset.v || cell.textContent;
      for (const body of table.tBodies) {
        const rows = [...body.rows].slice(body.classList.contains("group") ? 1 : 0).map(row => [value(row), row]);
        rows.sort(([x], [y]) => isNumber ? isNaN(x) - isNaN(y) || sign * (x - y) || 0 : sign * collator.compare(x, y));
        body.append(...rows.map(([, row]) => row));
      }
      for (const other of heads) other.setAttribute("aria-sort", other === th ? down ? "descending" : "ascending" : "none");
      say(`${table.caption.textContent}: sorted by ${name}, ${down ? "descending" : "ascending"}`);
    });
  });
}

// A browser does not scroll to a heading that is partly visible, for example beside the first column, which stays.
document.addEventListener("focusin", ({target}) => {
  if (target.closest("th")) target.scrollIntoView({block: "nearest", inline: "nearest"});
});

const tools = byId("filter");
if (tools) {
  const search = tools.querySelector("input[type=search]"), boxes = [...tools.querySelectorAll("input[type=checkbox]")];
  const rows = [...byId("signatures").tBodies[0].rows], plain = text => text.toLowerCase().replaceAll("×", "x");
  const texts = rows.map(row => plain(row.textContent));
  const filter = () => {
    const words = plain(search.value).split(/\s+/).filter(Boolean), on = new Set(boxes.filter(box => box.checked).map(box => box.value));
    let count = 0;
    rows.forEach((row, i) => {
      const isFound = on.has(row.dataset.p) && words.every(word => texts[i].includes(word));
      row.hidden = !isFound; count += isFound;
    });
    byId("shown").textContent = `${count} of ${rows.length} rows`;
  };
  tools.hidden = false;
  search.addEventListener("input", filter);
  for (const box of boxes) box.addEventListener("change", filter);
  filter();
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = byId(button.dataset.copy);
    getSelection().selectAllChildren(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied"; say("Command copied");
    } catch { // a page from a file may lack this permission
      say("Command selected; press Ctrl+C to copy it");
    }
  });
}
