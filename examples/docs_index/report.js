// Filters and sorts the table of documents; without it the page still shows everything.
(() => {
  const table = document.getElementById("documents");
  if (!table) return;
  const body = table.tBodies[0];
  const filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const texts = new Map([...body.rows].map((row) => [row, row.textContent.toLowerCase()]));

  const show = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const [row, text] of texts) {
      row.hidden = !wanted.every((word) => text.includes(word));
      if (!row.hidden) count += 1;
    }
    shown.textContent = `${count.toLocaleString("en")} of ${texts.size.toLocaleString("en")}`;
  };
  filter.addEventListener("input", show);
  show();

  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const numeric = head.classList.contains("n");
    const value = (row) => {
      const text = row.cells[column].textContent.trim();
      return numeric ? Number.parseFloat(text.replace(/,/g, "")) : text;
    };
    head.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === (numeric ? null : "ascending");
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [value(row), row]);
      rows.sort(([a], [b]) => {
        // Documents without a score stay at the end, whichever way the others go.
        if (numeric && (Number.isNaN(a) || Number.isNaN(b))) return Number.isNaN(a) - Number.isNaN(b);
        const order = numeric ? a - b : a.localeCompare(b, "en");
        return down ? -order : order;
      });
      body.append(...rows.map(([, row]) => row));
    });
  });
})();
